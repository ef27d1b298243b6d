// Streams the weights of a model with experts: as weight_stream.cuh, but the rows of a layer's experts are known only
// when its router has chosen, so loading pauses there.
#pragma once

#include "backend/cuda/decode_megakernel/expert_plan.h"
#include "backend/cuda/decode_megakernel/packed_stream.cuh"
#include "backend/cuda/decode_megakernel/router.cuh"
#include "backend/cuda/decode_megakernel/weight_stream.cuh"

namespace fk::cuda {

// Copies 16 bytes of weights and lets L2 drop them first: so the vectors that blocks exchange stay there.
struct CopyWeightsOnce {
  uint64_t policy;

  static __device__ __forceinline__ CopyWeightsOnce make() {
    CopyWeightsOnce copy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(copy.policy));
    return copy;
  }

  __device__ __forceinline__ void operator()(uint32_t to, const void* from, bool inside) const {
    asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(to), "l"(from),
                 "r"(inside ? 16 : 0), "l"(policy)
                 : "memory");
  }
};

// Gate and up rows of the chosen experts.
template <class T, class Handover, class Copy>
__device__ __forceinline__ void fetch_gate_up(const TokenCall& call, const void* matrix, const int* ids,
                                              PairShare& share, ChunkQueue<Handover>& queue, const Copy& copy) {
  static_assert(kFetchingWarps == 4, "gate_up_rows is made for four");
  const int warp = static_cast<int>(threadIdx.x - kTokenThreads) / 32, lane = static_cast<int>(threadIdx.x % 32);
  const DividedShape& s = call.shapes[hidden_from_compiler(kGateUp)];
  const int size = hidden_from_compiler(call.experts.size);
  const int64_t stride = static_cast<int64_t>(2) * s.length, of_expert = static_cast<int64_t>(2 * size) * s.length;
  const T* own_matrix = static_cast<const T*>(matrix) + 8 * lane;
  share.for_rounds(s, [&](int first, int count, int columns) {
    const GateUpRows own = gate_up_rows({first, first + count}, warp, size);
    const T* from = own_matrix + ids[own.expert] * of_expert + static_cast<int64_t>(own.first) * s.length;
    const T* from_next = own_matrix + ids[min(own.expert + 1, call.experts.chosen - 1)] * of_expert +
                         static_cast<int64_t>(own.first_of_next) * s.length;
    const int steps = columns / kStep;
    const uint32_t place = static_cast<uint32_t>(warp * columns + 8 * lane) * sizeof(T);
    const uint32_t place_next = place + own.rows * rows_apart<T>(steps);
    for (int column = 0; column < s.length; column += columns, from += columns, from_next += columns) {
      const uint32_t slot = queue.begin();
      const int left = s.length - column - 8 * lane;
      const bool is_last = column + columns > s.length;
      fetch_chunk(slot + place, from, stride, own.rows, steps, left, is_last, copy);
      if (own.rows_of_next > 0)
        fetch_chunk(slot + place_next, from_next, stride, own.rows_of_next, steps, left, is_last, copy);
      queue.end();
    }
  });
}

// Down rows: a chunk has parts of rows of one expert after the other.
template <class T, class Handover, class Copy>
__device__ __forceinline__ void fetch_down(const TokenCall& call, const void* matrix, const int* ids, PairShare& share,
                                           ChunkQueue<Handover>& queue, const Copy& copy) {
  const int warp = static_cast<int>(threadIdx.x - kTokenThreads) / 32, lane = static_cast<int>(threadIdx.x % 32);
  const DividedShape& s = call.shapes[hidden_from_compiler(kDown)];
  const int size = hidden_from_compiler(call.experts.size), padded = padded_expert(size);
  const int64_t stride = static_cast<int64_t>(kFetchingWarps) * size;
  const int64_t of_expert = static_cast<int64_t>(s.features) * size;
  const T* own_matrix = static_cast<const T*>(matrix) + 8 * lane;
  share.for_rounds(s, [&](int first, int count, int columns) {
    const int rows = (min(2 * count, s.features - 2 * first) - warp + kFetchingWarps - 1) / kFetchingWarps;
    const T* own_row = own_matrix + static_cast<int64_t>(2 * first + warp) * size;
    const uint32_t place = static_cast<uint32_t>(warp * columns + 8 * lane) * sizeof(T);
    const uint32_t apart = rows_apart<T>(columns / kStep);
    for (int column = 0; column < s.length; column += columns) {
      uint32_t to = queue.begin() + place;
      const int end = min(column + columns, s.length);
      for (int at = column; at < end;) {
        const DownRun run = down_run(at, end, padded);
        const T* from = own_row + ids[run.expert] * of_expert + run.column;
        const int steps = run.columns / kStep;
        if (run.column + run.columns > size || steps > 4)
          fetch_rows<0>(to, apart, from, stride, rows, steps, size - run.column - 8 * lane, copy);
        else if (steps == 1)
          fetch_rows<1>(to, apart, from, stride, rows, steps, 0, copy);
        else if (steps == 2)
          fetch_rows<2>(to, apart, from, stride, rows, steps, 0, copy);
        else if (steps == 3)
          fetch_rows<3>(to, apart, from, stride, rows, steps, 0, copy);
        else
          fetch_rows<4>(to, apart, from, stride, rows, steps, 0, copy);
        at += run.columns;
        to += static_cast<uint32_t>(run.columns) * sizeof(T);
      }
      queue.end();
    }
  });
}

// Both matrices of packed experts.
template <class Handover, class Copy>
__device__ __forceinline__ void fetch_packed(const TokenCall& call, int kind, const void* matrix, const int* ids,
                                             PairShare& share, ChunkQueue<Handover>& queue, const Copy& copy) {
  const DividedShape& s = call.shapes[hidden_from_compiler(kind)];
  const PairRange own = share.next(s);
  share.skip(s);
  const int size = call.experts.size;
  if (kind == kGateUp)
    fetch_items(
        matrix, own.count(), size, s.length, ids, [&](int i) { return gate_up_item(own, i, size); }, queue, copy);
  else
    fetch_items(
        matrix, down_items(own, call.experts.chosen), s.features / 2, size, ids,
        [&](int i) { return down_item(own, i); }, queue, copy);
}

// As fetch_weights, for a model with experts; `expert_layers` is in shared memory, too.
template <class T, class Handover, bool kPacked>
__device__ __forceinline__ void fetch_expert_weights(const TokenCall& call, const TokenLayer* layers,
                                                     const TokenExpertLayer* expert_layers, const WeightRing& ring,
                                                     RouterMemory& router) {
  static_assert(sizeof(T) == 2);
  PairShare share;
  ChunkQueue<Handover> queue(ring, call.dawdle);
  const CopyWeightsOnce copy = CopyWeightsOnce::make();
  int* ids = router.ids[(threadIdx.x - kTokenThreads) / 32];
  float* weights = threadIdx.x < kTokenThreads + 32 ? router.weights : nullptr;
  const int products = kProductsOfLayer * call.layers + 1;
#pragma unroll 1
  for (int product = 0; product < products; ++product) {
    const bool is_head = product + 1 == products;
    const int layer = product / kProductsOfLayer, kind = is_head ? kHead : product % kProductsOfLayer;
    const void* matrix = is_head ? call.head : layers[layer].matrices[kind];
    if (kind == kGateUp) {
      queue.finish();
      meet_all();  // the computing threads come here when all blocks have added their terms of the logits
      if constexpr (kPacked) {
        choose_experts<T, kFewExperts>(call, layer, expert_layers[layer].router_bias, router, ids, weights);
        fetch_packed(call, kind, matrix, ids, share, queue, copy);
      } else {
        choose_experts<T, kMostExperts>(call, layer, nullptr, router, ids, weights);
        fetch_gate_up<T>(call, matrix, ids, share, queue, copy);
      }
    } else if (kind == kDown) {
      if constexpr (kPacked)
        fetch_packed(call, kind, matrix, ids, share, queue, copy);
      else
        fetch_down<T>(call, matrix, ids, share, queue, copy);
    } else {
      const DividedShape& s = call.shapes[hidden_from_compiler(kind)];
      fetch_product<T>(s, s, matrix, share, queue, copy);
    }
  }
  queue.finish();
}

}  // namespace fk::cuda
