#include "backend/cuda/l1/norm_rows.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/packs.cuh"

namespace fk::cuda {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int kGroupThreads = 256;  // of a block that holds several short rows
constexpr int kMaxPacks = 4;        // that a thread keeps of a row

// Rows (t, h) of [T, H, D]; strides in elements.
template <class T>
struct Call {
  const T* x;
  const T* residual;  // and residual_out: null without one
  const T* weight;
  T* out;
  T* residual_out;
  int64_t x_token, x_head, residual_token, out_token, out_head, residual_out_token;
  int64_t rows;
  unsigned heads;
  unsigned width;  // D
  float eps, weight_offset;

  __device__ const T* x_row(int64_t row) const { return x + row / heads * x_token + row % heads * x_head; }
  __device__ T* out_row(int64_t row) const { return out + row / heads * out_token + row % heads * out_head; }
};

__device__ __forceinline__ float sum_of_lanes(float v, unsigned lanes) {
  for (unsigned step = lanes / 2; step > 0; step /= 2) v += __shfl_xor_sync(kAllLanes, v, static_cast<int>(step));
  return v;
}

// A row belongs to a block, or to `lanes` threads of a warp, a power of two.
template <class T, int N, int kPacks, bool kBlock>
__global__ void __launch_bounds__(kBlock ? kMaxThreads : kGroupThreads)
    norm_in_registers(const Call<T> call, unsigned lanes_of_group) {
  __shared__ float scratch[33];
  let_next_start();
  const unsigned lanes = kBlock ? blockDim.x : lanes_of_group;
  const unsigned lane = kBlock ? threadIdx.x : threadIdx.x % lanes;
  const int64_t row =
      kBlock ? blockIdx.x : static_cast<int64_t>(blockIdx.x) * (blockDim.x / lanes) + threadIdx.x / lanes;
  const bool exists = row < call.rows;
  const unsigned packs = call.width / N;
  Pack<T, N> weight[kPacks], v[kPacks], residual[kPacks];
#pragma unroll
  for (int j = 0; j < kPacks; ++j)
    if (lane + j * lanes < packs) weight[j] = load_pack<T, N>(call.weight + (lane + j * lanes) * N);
  wait_for_previous();

  const T* x = exists ? call.x_row(row) : call.x;
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    const unsigned at = (lane + j * lanes) * N;
    if (!exists || at >= call.width) continue;
    v[j] = load_pack<T, N>(x + at);
    if (call.residual != nullptr) residual[j] = load_pack<T, N>(call.residual + row * call.residual_token + at);
  }
  float squares = 0;
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    const unsigned at = (lane + j * lanes) * N;
    if (!exists || at >= call.width) continue;
    if (call.residual != nullptr) {
      // The sum is rounded to T before it is normalised, so that out is consistent with the residual_out that the next
      // layer reads.
#pragma unroll
      for (int k = 0; k < N; ++k) v[j].at[k] = from_float<T>(to_float(v[j].at[k]) + to_float(residual[j].at[k]));
      store_pack<T, N>(call.residual_out + row * call.residual_out_token + at, v[j]);
    }
#pragma unroll
    for (int k = 0; k < N; ++k) squares = fmaf(to_float(v[j].at[k]), to_float(v[j].at[k]), squares);
  }
  squares = kBlock ? reduce_block<Sum>(squares, scratch) : sum_of_lanes(squares, lanes);
  const float scale = 1.0f / sqrtf(squares / static_cast<float>(call.width) + call.eps);
  T* out = exists ? call.out_row(row) : call.out;
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    const unsigned at = (lane + j * lanes) * N;
    if (!exists || at >= call.width) continue;
#pragma unroll
    for (int k = 0; k < N; ++k)
      v[j].at[k] = from_float<T>(to_float(v[j].at[k]) * scale * (to_float(weight[j].at[k]) + call.weight_offset));
    store_pack<T, N>(out + at, v[j]);
  }
}

// Rows too long for the registers of a block are read twice; the second time from the L2.
template <class T>
__global__ void __launch_bounds__(kMaxThreads) norm_reread(const Call<T> call) {
  __shared__ float scratch[33];
  let_next_start();
  wait_for_previous();
  const int64_t row = blockIdx.x;
  const T* x = call.x_row(row);
  T* out = call.out_row(row);
  float squares = 0;
  for (unsigned i = threadIdx.x; i < call.width; i += blockDim.x) {
    float v = to_float(x[i]);
    if (call.residual != nullptr) {
      const T sum = from_float<T>(v + to_float(call.residual[row * call.residual_token + i]));
      call.residual_out[row * call.residual_out_token + i] = sum;
      v = to_float(sum);
    }
    squares = fmaf(v, v, squares);
  }
  squares = reduce_block<Sum>(squares, scratch);
  const float scale = 1.0f / sqrtf(squares / static_cast<float>(call.width) + call.eps);
  // Each thread reads only what it wrote itself.
  const T* normed = call.residual != nullptr ? call.residual_out + row * call.residual_out_token : x;
  for (unsigned i = threadIdx.x; i < call.width; i += blockDim.x)
    out[i] = from_float<T>(to_float(normed[i]) * scale * (to_float(call.weight[i]) + call.weight_offset));
}

template <class T, int N, int kPacks>
void launch_block(const Call<T>& call, unsigned packs, void* stream) {
  unsigned threads = (blocks_for(packs, kPacks) + 31) / 32 * 32;
  launch("norm_rows", norm_in_registers<T, N, kPacks, true>, static_cast<unsigned>(call.rows), threads, 0, stream, call,
         0u);
}

template <class T, int N, int kPacks>
void launch_groups(const Call<T>& call, unsigned lanes, void* stream) {
  launch("norm_rows", norm_in_registers<T, N, kPacks, false>, blocks_for(call.rows, kGroupThreads / lanes),
         kGroupThreads, 0, stream, call, lanes);
}

template <class T, int N>
void launch_norm(const Call<T>& call, void* stream) {
  const unsigned packs = call.width / N;
  if (packs <= 64) {
    unsigned lanes = 1;
    while (lanes < packs && lanes < 32) lanes *= 2;
    return packs <= lanes ? launch_groups<T, N, 1>(call, lanes, stream) : launch_groups<T, N, 2>(call, lanes, stream);
  }
  // Small blocks: with many rows more of them are in flight, and with few rows each fits on a multiprocessor beside the
  // previous product.
  unsigned threads = packs > kMaxPacks * 256 ? kMaxThreads : 256;
  if (packs <= threads) return launch_block<T, N, 1>(call, packs, stream);
  if (packs <= 2 * threads) return launch_block<T, N, 2>(call, packs, stream);
  if (packs <= kMaxPacks * threads) return launch_block<T, N, kMaxPacks>(call, packs, stream);
  launch("norm_rows", norm_reread<T>, static_cast<unsigned>(call.rows), kMaxThreads, 0, stream, call);
}

}  // namespace

std::string_view refuse_norm(Args args) {
  if (args[1].has_value() != args[3].has_value()) return "residual and residual_out come together";
  if (args[1] && args[0]->rank() != 2) return "a residual is added to rows of tokens only, not of heads";
  return refuse_floats({&args[0], &args[1], &args[2], &args[3]});
}

void norm_rows(const NormRows& given, void* stream) {
  const View &x = given.x, &out = given.out;
  bool heads = x.rank() == 3;
  bool packs = rows_fit_packs(x) && rows_fit_packs(given.residual) && rows_fit_packs(given.weight) &&
               rows_fit_packs(out) && rows_fit_packs(given.residual_out);
  with_packs(x.dtype(), packs, [&](auto type, auto n) {
    using T = typename decltype(type)::type;
    Call<T> call{};
    call.x = static_cast<const T*>(x.data());
    call.weight = static_cast<const T*>(given.weight.data());
    call.out = static_cast<T*>(out.data());
    call.x_token = x.stride(0);
    call.x_head = heads ? x.stride(1) : 0;
    call.out_token = out.stride(0);
    call.out_head = heads ? out.stride(1) : 0;
    if (given.residual) {
      call.residual = static_cast<const T*>(given.residual->data());
      call.residual_token = given.residual->stride(0);
      call.residual_out = static_cast<T*>(given.residual_out->data());
      call.residual_out_token = given.residual_out->stride(0);
    }
    call.heads = heads ? static_cast<unsigned>(x.size(1)) : 1;
    call.rows = x.size(0) * call.heads;
    call.width = static_cast<unsigned>(x.size(-1));
    call.eps = static_cast<float>(given.eps);
    call.weight_offset = static_cast<float>(given.weight_offset);
    launch_norm<T, decltype(n)::value>(call, stream);
  });
}

}  // namespace fk::cuda
