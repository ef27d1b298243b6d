// A block for each token, with its rows in registers.
#include "backend/cuda/l3/gemma4_closing.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/packs.cuh"

namespace fk::cuda {
namespace {

constexpr int kMostThreads = 1024;

template <class T>
struct Call {
  const T *mlp, *experts, *mlp_norm, *experts_norm, *norm, *residual, *scalar;
  T* out;
  int64_t mlp_stride, experts_stride, residual_stride, out_stride;
  int width;
  float eps;
};

// Over the block, by one barrier; every use has scratch of its own.
__device__ __forceinline__ float2 sum_over_block(float2 v, float2 (&scratch)[32]) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  v = {reduce_warp<Sum>(v.x), reduce_warp<Sum>(v.y)};
  if (lane == 0) scratch[warp] = v;
  __syncthreads();
  v = lane < warps ? scratch[lane] : float2{0, 0};
  return {reduce_warp<Sum>(v.x), reduce_warp<Sum>(v.y)};
}

// A thread has one pack of the row; threads behind its end take part in the sums.
template <class T>
__global__ void __launch_bounds__(kMostThreads) close_layer(const __grid_constant__ Call<T> c) {
  constexpr int N = kPackElements<T>;
  __shared__ float2 scratch[2][32];
  let_next_start();
  const int64_t t = blockIdx.x;
  const int i = static_cast<int>(threadIdx.x) * N;
  const bool inside = i < c.width, both = c.experts != nullptr;
  Pack<T, N> mlp_norm{}, experts_norm{}, norm{};
  if (inside) norm = load_pack<T, N>(c.norm + i);
  if (inside && both) {
    mlp_norm = load_pack<T, N>(c.mlp_norm + i);
    experts_norm = load_pack<T, N>(c.experts_norm + i);
  }
  const float factor = to_float(*c.scalar), width = static_cast<float>(c.width);
  wait_for_previous();

  Pack<T, N> x{}, experts{}, residual{};
  if (inside) {
    x = load_pack<T, N>(c.mlp + t * c.mlp_stride + i);
    residual = load_pack<T, N>(c.residual + t * c.residual_stride + i);
    if (both) experts = load_pack<T, N>(c.experts + t * c.experts_stride + i);
  }
  auto squares = [](const Pack<T, N>& of) {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < N; ++k) sum = fmaf(to_float(of.at[k]), to_float(of.at[k]), sum);
    return sum;
  };
  auto root = [&](float sum) { return 1.0f / sqrtf(sum / width + c.eps); };
  if (both) {
    const float2 sums = sum_over_block({squares(x), squares(experts)}, scratch[0]);
    const float of_mlp = root(sums.x), of_experts = root(sums.y);
    // Rounded where operators of their own would round, here and below.
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const T first = from_float<T>(to_float(x.at[k]) * of_mlp * to_float(mlp_norm.at[k]));
      const T second = from_float<T>(to_float(experts.at[k]) * of_experts * to_float(experts_norm.at[k]));
      x.at[k] = from_float<T>(to_float(first) + to_float(second));
    }
  }
  const float of_sum = root(sum_over_block({squares(x), 0}, scratch[1]).x);
  if (!inside) return;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const T normed = from_float<T>(to_float(x.at[k]) * of_sum * to_float(norm.at[k]));
    x.at[k] = from_float<T>((to_float(normed) + to_float(residual.at[k])) * factor);
  }
  store_pack<T, N>(c.out + t * c.out_stride + i, x);
}

template <class T>
void launch_closing(const Gemma4Closing& g, void* stream) {
  auto start_of = [](const OptView& v) { return v ? static_cast<const T*>(v->data()) : nullptr; };
  const Call<T> call{.mlp = start_of(g.mlp),
                     .experts = start_of(g.experts),
                     .mlp_norm = start_of(g.mlp_norm),
                     .experts_norm = start_of(g.experts_norm),
                     .norm = start_of(g.norm),
                     .residual = start_of(g.residual),
                     .scalar = start_of(g.scalar),
                     .out = static_cast<T*>(g.out.data()),
                     .mlp_stride = g.mlp.stride(0),
                     .experts_stride = g.experts ? g.experts->stride(0) : 0,
                     .residual_stride = g.residual.stride(0),
                     .out_stride = g.out.stride(0),
                     .width = static_cast<int>(g.mlp.size(1)),
                     .eps = static_cast<float>(g.eps)};
  launch("gemma4_closing", close_layer<T>, static_cast<unsigned>(g.mlp.size(0)),
         blocks_for(g.mlp.size(1), 32 * kPackElements<T>) * 32, 0, stream, call);
}

}  // namespace

std::string_view gemma4_closing_refusal(const Gemma4Closing& g) {
  if (g.mlp.dtype() != DType::kBF16 && g.mlp.dtype() != DType::kF16) return "it computes in bf16 and f16";
  if (g.mlp.size(1) > int64_t{kMostThreads} * 8) return "rows are too long for the registers of a block";
  auto unfit = [](const OptView& v) { return v && v->data() != nullptr && !rows_fit_packs(*v); };
  if (g.mlp.size(1) % 8 != 0 || unfit(g.mlp) || unfit(g.experts) || unfit(g.mlp_norm) || unfit(g.experts_norm) ||
      unfit(g.norm) || unfit(g.residual) || unfit(g.out))
    return "rows must start on 16 bytes";
  return {};
}

void gemma4_closing(const Gemma4Closing& g, void* stream) {
  if (g.mlp.dtype() == DType::kBF16)
    launch_closing<__nv_bfloat16>(g, stream);
  else
    launch_closing<__half>(g, stream);
}

}  // namespace fk::cuda
