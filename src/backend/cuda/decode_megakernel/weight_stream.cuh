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
#include "backend/cuda/decode_megakernel/pair_share.h"
#include "backend/cuda/device/mbarrier.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/device/ring_place.cuh"
#include "backend/cuda/device/tile.cuh"

namespace fk::cuda {

// visit(first, count, columns) for every round: `count` pairs from `first` on, one for each warp, in chunks of so many
// columns as fill a slot.
template <class Visit>
__device__ __forceinline__ void visit_rounds(PairRange own, const PairRounds& rounds, const Visit& visit) {
  for (int first = own.begin; first < own.end; first += rounds.pairs) {
    const int left = own.end - first;
    visit(first, min(rounds.pairs, left), left > rounds.pairs ? rounds.columns : rounds.columns_of_last);
  }
}

// The pairs of this block (pair_share.h), product after product.
class PairShare {
 public:
  // Of the next product.
  __device__ __forceinline__ PairRange next(const DividedShape& s) const {
    return pairs_of_block(s.division, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x), first_block_);
  }
  __device__ __forceinline__ void skip(const DividedShape& s) {
    first_block_ = next_first_block(s.division, static_cast<int>(gridDim.x), first_block_);
  }

  template <class Visit>
  __device__ __forceinline__ void for_rounds(const DividedShape& s, const Visit& visit) {
    const PairRange own = next(s);
    skip(s);
    visit_rounds(own, s.division.rounds[own.count() > s.division.each ? 1 : 0], visit);
  }

 private:
  int first_block_ = 0;
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

// Number of chunks in flight before the oldest is signalled. With more of them everything else that a block loads waits
// longer in the queues of the memory: data of other blocks, keys, values. One lane per warp arrives: a barrier handles
// arrivals one by one, and a hundred of them per chunk are slower than the copies.
inline constexpr int kChunksOnTheirWay = 1;

// A load warp's side of the ring.
template <class Handover>
class ChunkQueue {
 public:
  __device__ __forceinline__ ChunkQueue(const WeightRing& ring, unsigned seed) : ring_(ring), handover_(seed) {}

  // Address of the next slot, once it is free.
  __device__ __forceinline__ uint32_t begin() {
    // While no slot is free nothing else would signal the last chunks. All lanes decide the same.
    if (!__all_sync(kAllLanes, phase_ended(ring_.empty(place_.slot), place_.parity))) finish();
    wait_phase(ring_.empty(place_.slot), place_.parity);
    handover_.dawdle();
    return ring_.slot(place_.slot);
  }

  // After the copies of a chunk were started.
  __device__ __forceinline__ void end() {
    commit_copies();
    place_.next(ring_.count);
    if (on_their_way_ < kChunksOnTheirWay) {
      ++on_their_way_;
    } else {
      wait_copies<kChunksOnTheirWay>();
      tell_oldest();
    }
  }

  // Signals all chunks: before a wait for threads that need them, and at the end.
  __device__ __forceinline__ void finish() {
    wait_copies<0>();
    while (on_their_way_ > 0) {
      tell_oldest();
      --on_their_way_;
    }
  }

 private:
  __device__ __forceinline__ void tell_oldest() {
    handover_.dawdle();
    hand_over<Handover>(ring_.full(oldest_.slot));
    oldest_.next(ring_.count);
  }

  const WeightRing& ring_;
  RingPlace place_{.parity = 1};  // all slots are empty at first
  RingPlace oldest_;              // oldest chunk that has not been signalled
  int on_their_way_ = 0;
  Handover handover_;
};

// Copies 16 bytes of weights as any other data.
struct CopyWeights {
  __device__ __forceinline__ void operator()(uint32_t to, const void* from, bool inside) const {
    copy_async(to, from, inside);
  }
};

// Loads `kSteps` steps (0: `steps`) of a load warp's rows. There are few load warps, so every instruction here counts:
// rows are `stride` elements apart, in the slot `to_stride` bytes, and only the last chunk of a row is checked lane by
// lane.
template <int kSteps, class T, class Copy>
__device__ __forceinline__ void fetch_rows(uint32_t to, uint32_t to_stride, const T* from, int64_t stride, int rows,
                                           int steps, int left, const Copy& copy) {
  const int count = kSteps > 0 ? kSteps : steps;
#pragma unroll 4
  for (int r = 0; r < rows; ++r, from += stride, to += to_stride) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const bool inside = kSteps > 0 || i * kStep < left;
      copy(to + i * kStep * sizeof(T), from + i * kStep, inside);
    }
  }
}

// Bytes from a row of a load warp to its next in a chunk of so many steps.
template <class T>
constexpr uint32_t rows_apart(int steps) {
  return static_cast<uint32_t>(steps * kStep * sizeof(T)) * kFetchingWarps;
}

// The same for whole chunks of `steps` steps; `left`: elements of the row from this lane's on.
template <class T, class Copy>
__device__ __forceinline__ void fetch_chunk(uint32_t to, const T* from, int64_t stride, int rows, int steps, int left,
                                            bool is_last, const Copy& copy) {
  if (is_last || steps > 4 || steps < 2)
    fetch_rows<0>(to, rows_apart<T>(steps), from, stride, rows, steps, left, copy);
  else if (steps == 2)
    fetch_rows<2>(to, rows_apart<T>(2), from, stride, rows, steps, 0, copy);
  else if (steps == 3)
    fetch_rows<3>(to, rows_apart<T>(3), from, stride, rows, steps, 0, copy);
  else
    fetch_rows<4>(to, rows_apart<T>(4), from, stride, rows, steps, 0, copy);
}

// Loads this block's rows of the next product; `s`: its shape, in 16-bit elements. Share: PairShare, or a class with
// the same for_rounds.
template <class T, class Share, class Handover, class Copy>
__device__ __forceinline__ void fetch_product(const ProductShape& s, const DividedShape& shape, const void* matrix,
                                              Share& share, ChunkQueue<Handover>& queue, const Copy& copy) {
  const int warp = static_cast<int>(threadIdx.x - kTokenThreads) / 32, lane = static_cast<int>(threadIdx.x % 32);
  share.for_rounds(shape, [&](int first, int count, int columns) {
    // Row r of a round is row r % 2 of pair r / 2; a warp has every fourth, so all of one kind.
    const int row = s.gated ? first + warp / 2 + warp % 2 * s.features : 2 * first + warp;
    const int there = s.gated ? 2 * count : min(2 * count, s.features - 2 * first);
    const int rows = (there - warp + kFetchingWarps - 1) / kFetchingWarps;
    const int64_t stride = static_cast<int64_t>(s.gated ? kFetchingWarps / 2 : kFetchingWarps) * s.length;
    const T* from = static_cast<const T*>(matrix) + static_cast<int64_t>(row) * s.length + 8 * lane;
    const uint32_t own = static_cast<uint32_t>(warp * columns + 8 * lane) * sizeof(T);
    for (int column = 0; column < s.length; column += columns, from += columns) {
      const uint32_t to = queue.begin() + own;
      fetch_chunk(to, from, stride, rows, columns / kStep, s.length - column - 8 * lane, column + columns > s.length,
                  copy);
      queue.end();
    }
  });
}

// Loads all chunks of this block in order, by the load threads. `layers`: of the model, in shared memory.
template <class T, class Handover>
__device__ __forceinline__ void fetch_weights(const TokenCall& call, const TokenLayer* layers, const WeightRing& ring) {
  static_assert(sizeof(T) == 2);
  PairShare share;
  ChunkQueue<Handover> queue(ring, call.dawdle);
  const int products = kProductsOfLayer * call.layers + 1;
  for (int product = 0; product < products; ++product) {
    const bool is_head = product + 1 == products;
    const DividedShape& s = call.shapes[is_head ? kHead : product % kProductsOfLayer];
    const void* matrix = is_head ? call.head : layers[product / kProductsOfLayer].matrices[product % kProductsOfLayer];
    fetch_product<T>(s, s, matrix, share, queue, CopyWeights{});
  }
  queue.finish();
}

__device__ __forceinline__ uint4 load_shared(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

// The products of 256 columns of two rows with x, spread over the lanes, added to both sums, which may be one;
// shared-memory addresses.
template <class T>
__device__ __forceinline__ void multiply_step(float (&sum)[4], float (&other)[4], uint32_t first, uint32_t second,
                                              uint32_t x) {
  const uint32_t own = threadIdx.x % 32 * 16;
  const uint4 a = load_shared(first + own), b = load_shared(second + own), v = load_shared(x + own);
  multiply_tile<T>(sum, a.x, b.x, a.y, b.y, v.x, v.y);
  multiply_tile<T>(other, a.z, b.z, a.w, b.w, v.z, v.w);
}
template <class T>
__device__ __forceinline__ void multiply_step(float (&sum)[4], uint32_t first, uint32_t second, uint32_t x) {
  multiply_step<T>(sum, sum, first, second, x);
}

// The sums of multiply_step for both rows, in every lane.
__device__ __forceinline__ float2 gather(const float (&sum)[4]) {
  const uint32_t stretch = threadIdx.x % 32 / 4;
  const bool diagonal = threadIdx.x % 4 == stretch / 2, odd = stretch % 2 != 0;
  return {reduce_warp<Sum>(diagonal ? (odd ? sum[1] : sum[0]) : 0.0f),
          reduce_warp<Sum>(diagonal ? (odd ? sum[3] : sum[2]) : 0.0f)};
}

// This block's rows of the next product over x, in shared memory; finish(pair, values) by all lanes of a warp. kSums:
// one, or two that are added at the end, so that a product of tiles need not wait for the one before it.
template <int kSums = 1, class T, class Share, class Handover, class Finish>
__device__ __forceinline__ void multiply_product(const DividedShape& s, const T* x, const WeightRing& ring,
                                                 RingPlace& place, Share& share, Handover& handover,
                                                 const Finish& finish) {
  const int warp = static_cast<int>(threadIdx.x / 32);
  share.for_rounds(s, [&](int first, int count, int columns) {
    const uint32_t row_bytes = static_cast<uint32_t>(columns) * sizeof(T);
    const uint32_t own = static_cast<uint32_t>(2 * warp) * row_bytes;
    auto x_address = static_cast<uint32_t>(__cvta_generic_to_shared(x));
    float sum[kSums][4] = {};
    for (int column = 0; column < s.length; column += columns, x_address += row_bytes) {
      wait_phase(ring.full(place.slot), place.parity);
      handover.dawdle();
      if (warp < count) {
        const uint32_t rows = ring.slot(place.slot) + own;
        const uint32_t bytes = static_cast<uint32_t>(min(columns, s.length - column)) * sizeof(T);
#pragma unroll 2
        for (uint32_t at = 0; at < bytes; at += kStep * sizeof(T))
          multiply_step<T>(sum[0], sum[kSums - 1], rows + at, rows + row_bytes + at, x_address + at);
      }
      handover.dawdle();
      hand_over<Handover>(ring.empty(place.slot));
      place.next(ring.count);
    }
    if (warp >= count) return;
#pragma unroll
    for (int i = 1; i < kSums; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[0][j] += sum[i][j];
    finish(first + warp, gather(sum[0]));
  });
}

}  // namespace fk::cuda
