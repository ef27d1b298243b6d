// Softmax on CUDA: rows that fit are kept in the registers of a block, longer ones are read twice, and few long ones
// are split over many blocks.
#include "ops/l1/softmax.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/packs.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int kMaxPacks = 4;
constexpr int kPieceThreads = 256;
constexpr int64_t kBlocksWanted = 1024;  // enough for every multiprocessor to have several

// With this many rows, blocks of few threads with many elements each are faster: more rows are in flight, and their
// threads wait less for each other.
constexpr int64_t kManyRows = 256;
constexpr int64_t kFewThreads = 128;

// The fast approximate instruction is accurate enough for 16-bit results: at x = -80 its error is 1e-5.
template <class T>
__device__ __forceinline__ float exp_for(float x) {
  if constexpr (sizeof(T) == 4)
    return expf(x);
  else
    return __expf(x);
}

// e^(x - largest) of part of a row, added up.
struct Partial {
  float largest;
  float sum;
};

// The reference of the exponents: if a part is all -infinity, its terms must be 0, not NaN.
__device__ __forceinline__ float base_of(float largest) { return largest == Max::kNeutral ? 0.0f : largest; }

__device__ __forceinline__ Partial joined(const Partial& a, const Partial& b) {
  const float largest = fmaxf(a.largest, b.largest), base = base_of(largest);
  return {largest, a.sum * expf(a.largest - base) + b.sum * expf(b.largest - base)};
}

__device__ __forceinline__ Partial join_block(Partial v, float* scratch) {
  const float largest = reduce_block<Max>(v.largest, scratch);
  return {largest, reduce_block<Sum>(v.sum * expf(v.largest - base_of(largest)), scratch)};
}

// By all threads of a block; a NaN reaches the sum, not the largest.
template <class T, int N>
__device__ __forceinline__ Partial partial_of(const T* x, unsigned begin, unsigned end, float* scratch) {
  Partial all{Max::kNeutral, 0};
#pragma unroll 2
  for (unsigned i = begin + threadIdx.x * N; i < end; i += blockDim.x * N) {
    const Pack<T, N> pack = load_pack<T, N>(x + i);
    Partial part{Max::kNeutral, 0};
#pragma unroll
    for (int k = 0; k < N; ++k) part.largest = fmaxf(part.largest, to_float(pack.at[k]));
    const float base = base_of(fmaxf(part.largest, all.largest));
#pragma unroll
    for (int k = 0; k < N; ++k) part.sum += exp_for<T>(to_float(pack.at[k]) - base);
    all.sum = all.sum * expf(all.largest - base) + part.sum;
    all.largest = fmaxf(part.largest, all.largest);
  }
  return join_block(all, scratch);
}

template <class T, int N>
__device__ __forceinline__ void write_quotients(const T* x, T* out, unsigned begin, unsigned end, const Partial& row) {
  const float scale = 1.0f / row.sum;
#pragma unroll 2
  for (unsigned i = begin + threadIdx.x * N; i < end; i += blockDim.x * N) {
    Pack<T, N> pack = load_pack<T, N>(x + i);
#pragma unroll
    for (int k = 0; k < N; ++k) pack.at[k] = from_float<T>(exp_for<T>(to_float(pack.at[k]) - row.largest) * scale);
    store_pack<T, N>(out + i, pack);
  }
}

template <class T, int N, int kPacks>
__global__ void __launch_bounds__(kMaxThreads)
    row_in_registers(const T* x, int64_t x_stride, T* out, int64_t out_stride, unsigned width) {
  __shared__ float scratch[33];
  let_next_start();
  wait_for_previous();
  const T* from = x + blockIdx.x * x_stride;
  T* to = out + blockIdx.x * out_stride;
  Pack<T, N> pack[kPacks];
  float largest = Max::kNeutral, sum = 0;
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    const unsigned i = (threadIdx.x + j * blockDim.x) * N;
    if (i < width) pack[j] = load_pack<T, N>(from + i);
  }
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    if ((threadIdx.x + j * blockDim.x) * N >= width) continue;
#pragma unroll
    for (int k = 0; k < N; ++k) largest = fmaxf(largest, to_float(pack[j].at[k]));
  }
  largest = reduce_block<Max>(largest, scratch);
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    if ((threadIdx.x + j * blockDim.x) * N >= width) continue;
#pragma unroll
    for (int k = 0; k < N; ++k) sum += exp_for<T>(to_float(pack[j].at[k]) - largest);
  }
  const float scale = 1.0f / reduce_block<Sum>(sum, scratch);
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    const unsigned i = (threadIdx.x + j * blockDim.x) * N;
    if (i >= width) continue;
#pragma unroll
    for (int k = 0; k < N; ++k) pack[j].at[k] = from_float<T>(exp_for<T>(to_float(pack[j].at[k]) - largest) * scale);
    store_pack<T, N>(to + i, pack[j]);
  }
}

// A row per block: only as many rows are active as blocks fit on the device, so the second read hits L2.
template <class T, int N>
__global__ void __launch_bounds__(kMaxThreads)
    row_read_twice(const T* x, int64_t x_stride, T* out, int64_t out_stride, unsigned width) {
  __shared__ float scratch[33];
  let_next_start();
  wait_for_previous();
  const T* from = x + blockIdx.x * x_stride;
  const Partial row = partial_of<T, N>(from, 0, width, scratch);
  write_quotients<T, N>(from, out + blockIdx.x * out_stride, 0, width, row);
}

template <class T, int N>
__global__ void __launch_bounds__(kPieceThreads)
    sum_pieces(const T* x, int64_t stride, unsigned width, unsigned per_piece, unsigned pieces, Partial* partials) {
  __shared__ float scratch[33];
  let_next_start();
  wait_for_previous();
  const unsigned begin = blockIdx.x % pieces * per_piece;
  const Partial piece =
      partial_of<T, N>(x + blockIdx.x / pieces * stride, begin, min(begin + per_piece, width), scratch);
  if (threadIdx.x == 0) partials[blockIdx.x] = piece;
}

template <class T, int N>
__global__ void __launch_bounds__(kPieceThreads)
    write_pieces(const T* x, int64_t x_stride, T* out, int64_t out_stride, unsigned width, unsigned per_piece,
                 unsigned pieces, const Partial* partials) {
  __shared__ float scratch[33];
  let_next_start();
  wait_for_previous();
  const int64_t row = blockIdx.x / pieces;
  const unsigned begin = blockIdx.x % pieces * per_piece;
  Partial all{Max::kNeutral, 0};
  for (unsigned i = threadIdx.x; i < pieces; i += blockDim.x) all = joined(all, partials[row * pieces + i]);
  all = join_block(all, scratch);
  write_quotients<T, N>(x + row * x_stride, out + row * out_stride, begin, min(begin + per_piece, width), all);
}

class SoftmaxRowInRegisters final : public Softmax {
 public:
  using Softmax::Softmax;

  std::string_view refuse(Args args) const override {
    if (args[0]->size(1) > INT32_MAX) return "a row must have fewer than 2^31 elements";
    return refuse_floats({&args[0], &args[1]});
  }

  void forward(Context& ctx, View x, View out) override {
    with_packs(x.dtype(), rows_fit_packs(x) && rows_fit_packs(out), [&](auto type, auto n) {
      using T = typename decltype(type)::type;
      constexpr int N = decltype(n)::value;
      const T* from = static_cast<const T*>(x.data());
      T* to = static_cast<T*>(out.data());
      int64_t rows = x.size(0), packs = x.size(1) / N;
      auto width = static_cast<unsigned>(x.size(1));
      auto in_registers = [&](auto kernel, int64_t per_thread) {
        unsigned threads = (blocks_for(packs, per_thread) + 31) / 32 * 32;
        launch("softmax", kernel, static_cast<unsigned>(rows), threads, 0, ctx.stream, from, x.stride(0), to,
               out.stride(0), width);
      };
      if (rows == 0 || width == 0) return;
      const int64_t threads = rows >= kManyRows ? kFewThreads : kMaxThreads;
      if (packs <= threads) return in_registers(row_in_registers<T, N, 1>, 1);
      if (packs <= 2 * threads) return in_registers(row_in_registers<T, N, 2>, 2);
      if (packs <= kMaxPacks * kMaxThreads) return in_registers(row_in_registers<T, N, kMaxPacks>, kMaxPacks);
      int64_t pieces = kBlocksWanted / rows;
      if (pieces <= 2) {
        launch("softmax", row_read_twice<T, N>, static_cast<unsigned>(rows), kMaxThreads, 0, ctx.stream, from,
               x.stride(0), to, out.stride(0), width);
        return;
      }
      // Every thread gets something, and pieces begin on packs.
      unsigned per_piece = std::max<unsigned>(blocks_for(width, pieces), kPieceThreads * N);
      per_piece = (per_piece + N - 1) / N * N;
      auto count = blocks_for(width, per_piece);
      View scratch = ctx.arena.make({{rows * count, 2}, DType::kF32});
      auto* partials = static_cast<Partial*>(scratch.data());
      auto blocks = static_cast<unsigned>(rows) * count;
      launch("softmax", sum_pieces<T, N>, blocks, kPieceThreads, 0, ctx.stream, from, x.stride(0), width, per_piece,
             count, partials);
      launch("softmax", write_pieces<T, N>, blocks, kPieceThreads, 0, ctx.stream, from, x.stride(0), to, out.stride(0),
             width, per_piece, count, partials);
    });
  }
};

FK_IMPLEMENTATION(Softmax, SoftmaxRowInRegisters, "cuda.row_in_registers", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
