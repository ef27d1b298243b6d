// LayerNorm on CUDA: a warp for each row, which stays in its registers; for other rows a block, which reads them three
// times, the second and third from a cache.
#include "backend/cuda/l1/layer_norm.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/packs.cuh"
#include "ops/l1/layer_norm.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = 4;     // of a block with a row for each warp
constexpr int kMaxPacks = 8;  // that a lane keeps of a row

// Rows (t, h) of [T, H, D]; strides in elements. residual and bias may be null, and residual_out, too, where a warp has
// a row.
template <class T>
struct LayerNormCall {
  const T *x, *residual, *weight, *bias;
  T *out, *residual_out;
  int64_t x_token, x_head, residual_token, out_token, out_head, residual_out_token, weight_head;
  unsigned heads, width;
  float eps;
};

template <class T>
__global__ void __launch_bounds__(kThreads) layer_norm_row(const LayerNormCall<T> call) {
  __shared__ float scratch[33];
  let_next_start();
  wait_for_previous();
  const int64_t token = blockIdx.x / call.heads, head = blockIdx.x % call.heads;
  const T* x = call.x + token * call.x_token + head * call.x_head;
  float sum = 0;
  if (call.residual != nullptr) {
    // The sum is rounded to T before it is normed, as the next layer reads it. A thread reads only what it wrote.
    const T* residual = call.residual + token * call.residual_token;
    T* added = call.residual_out + token * call.residual_out_token;
    for (unsigned i = threadIdx.x; i < call.width; i += kThreads)
      added[i] = from_float<T>(to_float(x[i]) + to_float(residual[i]));
    x = added;
  }
  for (unsigned i = threadIdx.x; i < call.width; i += kThreads) sum += to_float(x[i]);
  const float mean = reduce_block<Sum>(sum, scratch) / static_cast<float>(call.width);
  float squares = 0;
  for (unsigned i = threadIdx.x; i < call.width; i += kThreads) {
    const float from_mean = to_float(x[i]) - mean;
    squares = fmaf(from_mean, from_mean, squares);
  }
  squares = reduce_block<Sum>(squares, scratch);
  const float scale = 1.0f / sqrtf(squares / static_cast<float>(call.width) + call.eps);
  const T* weight = call.weight + head * call.weight_head;
  const T* bias = call.bias != nullptr ? call.bias + head * call.weight_head : nullptr;
  T* out = call.out + token * call.out_token + head * call.out_head;
  for (unsigned i = threadIdx.x; i < call.width; i += kThreads) {
    const float normed = (to_float(x[i]) - mean) * scale * to_float(weight[i]);
    out[i] = from_float<T>(bias != nullptr ? normed + to_float(bias[i]) : normed);
  }
}

template <class T, int kPacks>
__global__ void __launch_bounds__(32 * kWarps) layer_norm_warp(const LayerNormCall<T> call, int64_t rows) {
  constexpr int N = kPackElements<T>;
  let_next_start();
  wait_for_previous();
  const unsigned lane = threadIdx.x % 32;
  // The end comes first: what was written last before may still be in the L2.
  const int64_t row = static_cast<int64_t>(gridDim.x - 1 - blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= rows) return;  // whole warps
  const int64_t token = row / call.heads, head = row % call.heads;
  const T* x = call.x + token * call.x_token + head * call.x_head;
  Pack<T, N> v[kPacks];
  auto for_packs = [&](auto&& body) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const unsigned at = (lane + j * 32) * N;
      if (at < call.width) body(j, at);
    }
  };
  for_packs([&](int j, unsigned at) { v[j] = load_pack<T, N>(x + at); });
  if (call.residual != nullptr)
    for_packs([&](int j, unsigned at) {
      const Pack<T, N> added = load_pack<T, N>(call.residual + token * call.residual_token + at);
#pragma unroll
      for (int k = 0; k < N; ++k) v[j].at[k] = from_float<T>(to_float(v[j].at[k]) + to_float(added.at[k]));
      if (call.residual_out != nullptr)
        store_pack<T, N>(call.residual_out + token * call.residual_out_token + at, v[j]);
    });
  float sum = 0;
  for_packs([&](int j, unsigned) {
#pragma unroll
    for (int k = 0; k < N; ++k) sum += to_float(v[j].at[k]);
  });
  const float mean = reduce_warp<Sum>(sum) / static_cast<float>(call.width);
  float squares = 0;
  for_packs([&](int j, unsigned) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float from_mean = to_float(v[j].at[k]) - mean;
      squares = fmaf(from_mean, from_mean, squares);
    }
  });
  const float scale = 1.0f / sqrtf(reduce_warp<Sum>(squares) / static_cast<float>(call.width) + call.eps);
  T* out = call.out + token * call.out_token + head * call.out_head;
  for_packs([&](int j, unsigned at) {
    const Pack<T, N> weight = load_pack<T, N>(call.weight + head * call.weight_head + at);
    Pack<T, N> bias{};
    if (call.bias != nullptr) bias = load_pack<T, N>(call.bias + head * call.weight_head + at);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float normed = (to_float(v[j].at[k]) - mean) * scale * to_float(weight.at[k]);
      v[j].at[k] = from_float<T>(call.bias != nullptr ? normed + to_float(bias.at[k]) : normed);
    }
    store_pack<T, N>(out + at, v[j]);
  });
}

template <class T>
void start_warps(const LayerNormCall<T>& call, int64_t tokens, void* stream) {
  const int64_t rows = tokens * call.heads, packs = call.width / kPackElements<T>;
  auto start = [&](auto kernel) {
    launch("layer_norm", kernel, blocks_for(rows, kWarps), 32 * kWarps, 0, stream, call, rows);
  };
  if (packs <= 32)
    start(layer_norm_warp<T, 1>);
  else if (packs <= 64)
    start(layer_norm_warp<T, 2>);
  else if (packs <= 128)
    start(layer_norm_warp<T, 4>);
  else
    start(layer_norm_warp<T, kMaxPacks>);
}

bool fits_a_warp(const View& rows) {
  return rows.size(-1) * static_cast<int64_t>(dtype_size(rows.dtype())) <= 16 * 32 * kMaxPacks;
}

class CudaLayerNorm : public LayerNorm {
 public:
  using LayerNorm::LayerNorm;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    return why.empty() ? refuse_floats({&args[0], &args[1], &args[2], &args[3]}) : why;
  }

 protected:
  template <class T>
  LayerNormCall<T> call_of(const View& x, const OptView& residual, const View& out, const OptView& residual_out) const {
    bool heads = x.rank() == 3;
    auto start = [](const OptView& v) { return v ? static_cast<T*>(v->data()) : static_cast<T*>(nullptr); };
    return {.x = start(x),
            .residual = start(residual),
            .weight = start(weight()),
            .bias = start(bias()),
            .out = start(out),
            .residual_out = start(residual_out),
            .x_token = x.stride(0),
            .x_head = heads ? x.stride(1) : 0,
            .residual_token = residual ? residual->stride(0) : 0,
            .out_token = out.stride(0),
            .out_head = heads ? out.stride(1) : 0,
            .residual_out_token = residual_out ? residual_out->stride(0) : 0,
            .weight_head = init_.num_heads > 0 ? x.size(-1) : 0,
            .heads = heads ? static_cast<unsigned>(x.size(1)) : 1u,
            .width = static_cast<unsigned>(x.size(-1)),
            .eps = static_cast<float>(init_.eps)};
  }
};

class LayerNormWarpPerRow final : public CudaLayerNorm {
 public:
  using CudaLayerNorm::CudaLayerNorm;

  std::string_view refuse(Args args) const override {
    if (std::string_view why = CudaLayerNorm::refuse(args); !why.empty()) return why;
    for (const OptView& v : args)
      if (!rows_fit_packs(v)) return "rows must start on 16 bytes";
    // refuse() may be called before weights are bound.
    if (has_param(0) && (!rows_fit_packs(weight()) || !rows_fit_packs(bias())))
      return "weight and bias must start on 16 bytes";
    return fits_a_warp(*args[0]) ? std::string_view() : "rows must fit into the registers of a warp";
  }

  void forward(Context& ctx, View x, OptView residual, View out, OptView residual_out) override {
    if (x.numel() == 0) return;
    with_float_type(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      start_warps(call_of<T>(x, residual, out, residual_out), x.size(0), ctx.stream);
    });
  }
};

class LayerNormBlockPerRow final : public CudaLayerNorm {
 public:
  using CudaLayerNorm::CudaLayerNorm;

  void forward(Context& ctx, View x, OptView residual, View out, OptView residual_out) override {
    if (x.numel() == 0) return;
    with_float_type(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      LayerNormCall<T> call = call_of<T>(x, residual, out, residual_out);
      launch("layer_norm", layer_norm_row<T>, static_cast<unsigned>(x.size(0)) * call.heads, kThreads, 0, ctx.stream,
             call);
    });
  }
};

FK_IMPLEMENTATION(LayerNorm, LayerNormWarpPerRow, "cuda.warp_per_row", DeviceKind::kCuda, 100, nullptr);
FK_IMPLEMENTATION(LayerNorm, LayerNormBlockPerRow, "cuda.block_per_row", DeviceKind::kCuda, 0, nullptr);

}  // namespace

bool can_norm_sum(const View& x) { return rows_fit_packs(x) && fits_a_warp(x); }

void norm_of_sum(const View& x, const View& residual, const View& weight, const View& bias, double eps, const View& out,
                 void* stream) {
  if (x.numel() == 0) return;
  with_float_type(x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    auto start = [](const View& v) { return static_cast<T*>(v.data()); };
    start_warps(LayerNormCall<T>{.x = start(x),
                                 .residual = start(residual),
                                 .weight = start(weight),
                                 .bias = start(bias),
                                 .out = start(out),
                                 .residual_out = nullptr,
                                 .x_token = x.stride(0),
                                 .x_head = 0,
                                 .residual_token = residual.stride(0),
                                 .out_token = out.stride(0),
                                 .out_head = 0,
                                 .residual_out_token = 0,
                                 .weight_head = 0,
                                 .heads = 1,
                                 .width = static_cast<unsigned>(x.size(1)),
                                 .eps = static_cast<float>(eps)},
                x.size(0), stream);
  });
}

}  // namespace fk::cuda
