#include "backend/cuda/l1/row_max.h"

#include <algorithm>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/l1/packs.cuh"
#include "backend/cuda/l1/row_max.cuh"

namespace fk::cuda {
namespace {

constexpr int kRowMaxThreads = 256;
constexpr int64_t kLeastPerPiece = 2048;  // elements: reading fewer takes less time than starting another block
constexpr int64_t kBlocksWanted = 512;    // enough for every multiprocessor to have several

template <class T, int N>
__global__ void __launch_bounds__(kRowMaxThreads)
    find_maxima(const T* x, int64_t stride, int64_t width, int64_t per_piece, RowMaxima maxima) {
  __shared__ PieceMax of_warps[kRowMaxThreads / 32];
  let_next_start();
  wait_for_previous();
  const int64_t row = blockIdx.x / maxima.pieces_per_row, piece = blockIdx.x % maxima.pieces_per_row;
  const T* from = x + row * stride;
  const int64_t begin = piece * per_piece, end = min(begin + per_piece, width);
  PieceMax best{0, kMinusInfinity};
#pragma unroll 4
  for (int64_t i = begin + static_cast<int64_t>(threadIdx.x) * N; i < end; i += kRowMaxThreads * N) {
    const Pack<T, N> pack = load_pack<T, N>(from + i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float v = to_float(pack.at[k]);
      best = larger(best, {packed_max(v, static_cast<uint32_t>(i + k)), v});
    }
  }
  best = reduce_warp(best);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x != 0) return;
#pragma unroll
  for (int w = 1; w < kRowMaxThreads / 32; ++w) best = larger(best, of_warps[w]);
  maxima.pieces[blockIdx.x] = best;
}

}  // namespace

RowMaxima row_maxima(const View& x, Arena& arena, void* stream) {
  const int64_t rows = x.size(0), width = x.size(1);
  const int64_t wanted = std::max<int64_t>(1, kBlocksWanted / std::max<int64_t>(rows, 1));
  int64_t pieces = std::clamp<int64_t>(width / kLeastPerPiece, 1, wanted);
  // Pieces are multiples of any pack, so that each begins on one.
  const int64_t per_piece = ((width + pieces - 1) / pieces + 7) / 8 * 8;
  pieces = (width + per_piece - 1) / per_piece;
  View scratch = arena.make({{rows * pieces, static_cast<int64_t>(sizeof(PieceMax))}, DType::kU8});
  RowMaxima maxima{static_cast<PieceMax*>(scratch.data()), pieces};
  with_packs(x.dtype(), rows_fit_packs(x), [&](auto type, auto n) {
    using T = typename decltype(type)::type;
    launch("row_maxima", find_maxima<T, decltype(n)::value>, static_cast<unsigned>(rows * pieces), kRowMaxThreads, 0,
           stream, static_cast<const T*>(x.data()), x.stride(0), width, per_piece, maxima);
  });
  return maxima;
}

}  // namespace fk::cuda
