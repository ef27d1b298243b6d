// Streams the weights of the whole model through one block, many copies ahead of their use.
//
// The weights of a block and their order are known in advance. Four warps only start copies into a ring buffer in
// shared memory, across the ends of products and layers, as fast as slots become free; so memory stays busy while
// blocks synchronise or compute attention. The computing warps never load weights themselves: they would stall when the
// memory queue is full, and slots would not become free.
//
// Rows are processed in pairs (in a gated product: a gate row and its up row), each by one warp, up to 16 pairs at a
// time. A chunk is the same columns of all of them. 256 columns of a pair are two mma.m16n8k16: the eight groups of
// four lanes hold eight segments of them, as eight rows of the left operand for the first row of W and eight for the
// second, and the same segments of x as eight columns of the right one. Only the products of equal segments are used:
// the diagonal. The tensor core is idle anyway, and no number has to be unpacked.
#pragma once

#include <cuda_bf16.h>

#include "backend/cuda/decode_megakernel/block.cuh"
#include "backend/cuda/decode_megakernel/call.h"
#include "backend/cuda/decode_megakernel/handover.cuh"
#include "backend/cuda/device/mbarrier.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/device/ring_place.cuh"
#include "backend/cuda/device/tile.cuh"

namespace fk::cuda {

inline constexpr int kStepBytes = 2 * 2 * kStep;  // of two rows of 16-bit elements
inline constexpr int kSlotBytes = kTokenWarps * 2 * kStepBytes;

// Which pairs of rows of a product belong to this block: the same number for each block, and the remainder goes to
// other blocks in every product, so that over a whole model the blocks differ by at most one pair.
class PairShare {
 public:
  // visit(first, count, columns) for every round: `count` pairs from `first` on, one for each warp, in chunks of so
  // many columns as fill a slot. Rounds have equally many pairs; the last may have fewer.
  template <class Visit>
  __device__ __forceinline__ void for_rounds(const ProductShape& s, const Visit& visit) {
    const int blocks = static_cast<int>(gridDim.x), all = s.gated ? s.features : (s.features + 1) / 2;
    const int each = all / blocks, left = all % blocks;
    int at = static_cast<int>(blockIdx.x) - first_block_;
    if (at < 0) at += blocks;
    first_block_ = (first_block_ + left) % blocks;
    const int begin = at * each + min(at, left), end = begin + each + (at < left ? 1 : 0);
    if (begin == end) return;
    const int rounds = (end - begin + kTokenWarps - 1) / kTokenWarps, pairs = (end - begin + rounds - 1) / rounds;
    const int columns = kSlotBytes / (pairs * kStepBytes) * kStep;
    for (int first = begin; first < end; first += pairs) visit(first, min(pairs, end - first), columns);
  }

 private:
  int first_block_ = 0;  // the one that has the first pair
};

// Slots of shared memory, each with a "full" barrier (its chunk has arrived) and an "empty" barrier (it was used).
struct WeightRing {
  uint32_t slots;     // shared-memory addresses
  uint32_t barriers;  // full and empty of each slot
  int count;

  __device__ __forceinline__ uint32_t slot(int i) const { return slots + static_cast<uint32_t>(i * kSlotBytes); }
  __device__ __forceinline__ uint32_t full(int i) const { return barriers + static_cast<uint32_t>(16 * i); }
  __device__ __forceinline__ uint32_t empty(int i) const { return full(i) + 8; }

  // By one thread, before the first block barrier. `arrivals` of each warp for a slot.
  __device__ __forceinline__ void start(unsigned arrivals) const {
    for (int i = 0; i < count; ++i) {
      init_barrier(full(i), kFetchingWarps * arrivals);
      init_barrier(empty(i), kTokenWarps * arrivals);
    }
  }
};

// Loads one chunk of a load warp's rows, each `kSteps` steps long (0: `steps`). There are few load warps, so every
// instruction here counts: rows are `stride` elements apart, and only the last chunk of a row is checked lane by lane.
template <int kSteps, class T>
__device__ __forceinline__ void fetch_rows(uint32_t to, const T* from, int64_t stride, int rows, int steps, int left) {
  const int count = kSteps > 0 ? kSteps : steps;
  const uint32_t to_stride = static_cast<uint32_t>(count * kStep * sizeof(T)) * kFetchingWarps;
#pragma unroll 4
  for (int r = 0; r < rows; ++r, from += stride, to += to_stride) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const bool inside = kSteps > 0 || i * kStep < left;
      copy_async(to + i * kStep * sizeof(T), from + i * kStep, inside);
    }
  }
}

// Number of chunks in flight before the oldest is signalled. One lane per warp arrives: a barrier handles arrivals one
// by one, and a hundred of them per chunk are slower than the copies.
inline constexpr int kChunksOnTheirWay = 2;

// Loads all chunks of this block in order, by the load threads. `layers`: of the model, in shared memory.
template <class T, class Handover>
__device__ __forceinline__ void fetch_weights(const TokenCall& call, const TokenLayer* layers, const WeightRing& ring) {
  static_assert(sizeof(T) == 2);
  const int warp = static_cast<int>(threadIdx.x - kTokenThreads) / 32, lane = static_cast<int>(threadIdx.x % 32);
  PairShare share;
  RingPlace place{.parity = 1};  // all slots are empty at first
  RingPlace oldest;              // oldest chunk that has not been signalled
  int on_their_way = 0;
  Handover handover(call.dawdle);
  auto tell_oldest = [&] {
    handover.dawdle();
    hand_over<Handover>(ring.full(oldest.slot));
    oldest.next(ring.count);
  };
  const int products = kProductsOfLayer * call.layers + 1;
  for (int product = 0; product < products; ++product) {
    const bool is_head = product + 1 == products;
    const ProductShape& s = call.shapes[is_head ? kHead : product % kProductsOfLayer];
    const void* matrix = is_head ? call.head : layers[product / kProductsOfLayer].matrices[product % kProductsOfLayer];
    share.for_rounds(s, [&](int first, int count, int columns) {
      // Row r of a round is row r % 2 of pair r / 2; a warp has every fourth, so all of one kind.
      const int row = s.gated ? first + warp / 2 + warp % 2 * s.features : 2 * first + warp;
      const int there = s.gated ? 2 * count : min(2 * count, s.features - 2 * first);
      const int rows = (there - warp + kFetchingWarps - 1) / kFetchingWarps;
      const int64_t stride = static_cast<int64_t>(s.gated ? kFetchingWarps / 2 : kFetchingWarps) * s.length;
      const T* from = static_cast<const T*>(matrix) + static_cast<int64_t>(row) * s.length + 8 * lane;
      const uint32_t own = static_cast<uint32_t>(warp * columns + 8 * lane) * sizeof(T);
      for (int column = 0; column < s.length; column += columns, from += columns) {
        wait_phase(ring.empty(place.slot), place.parity);
        handover.dawdle();
        const uint32_t to = ring.slot(place.slot) + own;
        const int steps = columns / kStep;
        if (column + columns > s.length || steps > 4 || steps < 2)
          fetch_rows<0>(to, from, stride, rows, steps, s.length - column - 8 * lane);
        else if (steps == 2)
          fetch_rows<2>(to, from, stride, rows, steps, 0);
        else if (steps == 3)
          fetch_rows<3>(to, from, stride, rows, steps, 0);
        else
          fetch_rows<4>(to, from, stride, rows, steps, 0);
        commit_copies();
        place.next(ring.count);
        if (on_their_way < kChunksOnTheirWay) {
          ++on_their_way;
        } else {
          wait_copies<kChunksOnTheirWay>();
          tell_oldest();
        }
      }
    });
  }
  wait_copies<0>();
  while (on_their_way-- > 0) tell_oldest();
}

__device__ __forceinline__ uint4 load_shared(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

// sum += the products of 256 columns of two rows with x, spread over the lanes; shared-memory addresses.
template <class T>
__device__ __forceinline__ void multiply_step(float (&sum)[4], uint32_t first, uint32_t second, uint32_t x) {
  const uint32_t own = threadIdx.x % 32 * 16;
  const uint4 a = load_shared(first + own), b = load_shared(second + own), v = load_shared(x + own);
  multiply_tile<T>(sum, a.x, b.x, a.y, b.y, v.x, v.y);
  multiply_tile<T>(sum, a.z, b.z, a.w, b.w, v.z, v.w);
}

// The sums of multiply_step for both rows, in every lane.
__device__ __forceinline__ float2 gather(const float (&sum)[4]) {
  const uint32_t stretch = threadIdx.x % 32 / 4;
  const bool diagonal = threadIdx.x % 4 == stretch / 2, odd = stretch % 2 != 0;
  return {reduce_warp<Sum>(diagonal ? (odd ? sum[1] : sum[0]) : 0.0f),
          reduce_warp<Sum>(diagonal ? (odd ? sum[3] : sum[2]) : 0.0f)};
}

}  // namespace fk::cuda
