// Experts in MXFP4 inside the token kernel: loading their rows, and multiplying them (packed_plan.h).
//
// A chunk has as many items as a slot holds. Item i belongs to computing warp i % 16, whatever its chunk; so all warps
// have work, although a slot has fewer items than there are warps.
#pragma once

#include "backend/cuda/decode_megakernel/packed_plan.h"
#include "backend/cuda/decode_megakernel/weight_stream.cuh"
#include "backend/cuda/quantised/pairs.cuh"

namespace fk::cuda {

// Loads items 0 .. count - 1, by the load threads; item_of(i) is a PackedItem, `ids` the chosen experts.
template <class Handover, class Copy, class ItemOf>
__device__ __forceinline__ void fetch_items(const void* matrix, int count, int pairs_of_expert, int length,
                                            const int* ids, const ItemOf& item_of, ChunkQueue<Handover>& queue,
                                            const Copy& copy) {
  const int warp = static_cast<int>(threadIdx.x - kTokenThreads) / 32, lane = static_cast<int>(threadIdx.x % 32);
  const int item_bytes = packed_item_bytes(length), per_chunk = kSlotBytes / item_bytes;
  const char* own_matrix = static_cast<const char*>(matrix) + 16 * lane;
#pragma unroll 1
  for (int first = 0; first < count; first += per_chunk) {
    const uint32_t slot = queue.begin() + 16 * lane;
    const int items = min(per_chunk, count - first);
#pragma unroll 1
    for (int i = warp; i < items; i += kFetchingWarps) {
      const PackedItem item = item_of(first + i);
      const int64_t pair = static_cast<int64_t>(ids[item.expert]) * pairs_of_expert + item.pair;
      const char* from = own_matrix + pair * item_bytes;
      const uint32_t to = slot + static_cast<uint32_t>(i * item_bytes);
#pragma unroll 4
      for (int at = 0; at < item_bytes; at += 512)
        if (at + 16 * lane < item_bytes) copy(to + at, from + at, true);
    }
    queue.end();
  }
}

__device__ __forceinline__ uint32_t load_shared_word(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ uint32_t load_shared_byte(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}

// 2^(code - 127).
__device__ __forceinline__ float mxfp4_scale(uint32_t code) { return __uint_as_float(max(code << 23, 0x0040'0000u)); }

// As multiply_step: 256 columns of two rows, each group of four lanes one block of both. Addresses are those of the
// lane's words and of its group's scales.
template <class T>
__device__ __forceinline__ void multiply_packed_step(float (&sum)[4], uint32_t first, uint32_t second,
                                                     float first_scale, float second_scale, uint32_t x) {
  const uint32_t a = load_shared_word(first), b = load_shared_word(second);
  const uint4 v = load_shared(x);
  float part[4] = {};
  multiply_tile<T>(part, e2m1_pair<T>(a, 0), e2m1_pair<T>(b, 0), e2m1_pair<T>(a, 1), e2m1_pair<T>(b, 1), v.x, v.y);
  multiply_tile<T>(part, e2m1_pair<T>(a, 2), e2m1_pair<T>(b, 2), e2m1_pair<T>(a, 3), e2m1_pair<T>(b, 3), v.z, v.w);
  sum[0] = fmaf(first_scale, part[0], sum[0]);
  sum[1] = fmaf(first_scale, part[1], sum[1]);
  sum[2] = fmaf(second_scale, part[2], sum[2]);
  sum[3] = fmaf(second_scale, part[3], sum[3]);
}

// The products of an item's two rows with x, in every lane; shared-memory addresses.
template <class T>
__device__ __forceinline__ float2 multiply_item(uint32_t item, int length, uint32_t x) {
  const uint32_t lane = threadIdx.x % 32, group = lane / 4;
  const auto row_bytes = static_cast<uint32_t>(packed_row_bytes(length));
  const int blocks = length / kMxfp4Elements;
  uint32_t codes = item + 4 * lane, scales = item + static_cast<uint32_t>(packed_code_bytes(length)) + group;
  x += 16 * lane;
  float sum[4] = {};
  int block = 0;
#pragma unroll 2
  for (; block + 8 <= blocks; block += 8) {
    const uint32_t s = load_shared_byte(scales), t = load_shared_byte(scales + row_bytes);
    multiply_packed_step<T>(sum, codes, codes + row_bytes, mxfp4_scale(s), mxfp4_scale(t), x);
    codes += 8 * kMxfp4CodeBytes;
    scales += 8;
    x += kStep * sizeof(T);
  }
  if (block < blocks) {
    // x has zeros behind its end; groups without a block take the first one's codes, with a scale of zero.
    const bool inside = block + static_cast<int>(group) < blocks;
    if (!inside) {
      codes -= 16 * group;
      scales -= group;
    }
    const uint32_t s = load_shared_byte(scales), t = load_shared_byte(scales + row_bytes);
    multiply_packed_step<T>(sum, codes, codes + row_bytes, inside ? mxfp4_scale(s) : 0.0f,
                            inside ? mxfp4_scale(t) : 0.0f, x);
  }
  return gather(sum);
}

// This block's items 0 .. count - 1. x_of(expert) is the address of the staged input of a chosen expert; use(i, item,
// sums) gets the products with biases added, in all lanes of a warp. `ids` may be read after the first chunk has come.
template <class T, class Handover, class ItemOf, class XOf, class Use>
__device__ __forceinline__ void multiply_items(const WeightRing& ring, RingPlace& place, Handover& handover, int count,
                                               int pairs_of_expert, int length, const void* biases, const int* ids,
                                               const ItemOf& item_of, const XOf& x_of, const Use& use) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int item_bytes = packed_item_bytes(length), per_chunk = kSlotBytes / item_bytes;
  int own = static_cast<int>(threadIdx.x / 32);
#pragma unroll 1
  for (int first = 0; first < count; first += per_chunk) {
    wait_phase(ring.full(place.slot), place.parity);
    handover.dawdle();
    const int end = min(first + per_chunk, count);
#pragma unroll 1
    for (; own < end; own += kTokenWarps) {
      const PackedItem item = item_of(own);
      const int64_t pair = static_cast<int64_t>(ids[item.expert]) * pairs_of_expert + item.pair;
      // Loaded before the product, which takes longer than the load.
      const float bias = lane < 2 ? to_float(static_cast<const T*>(biases)[2 * pair + lane]) : 0.0f;
      const float2 sums = multiply_item<T>(ring.slot(place.slot) + static_cast<uint32_t>((own - first) * item_bytes),
                                           length, x_of(item.expert));
      use(own, item, float2{sums.x + __shfl_sync(kAllLanes, bias, 0), sums.y + __shfl_sync(kAllLanes, bias, 1)});
    }
    handover.dawdle();
    hand_over<Handover>(ring.empty(place.slot));
    place.next(ring.count);
  }
}

}  // namespace fk::cuda
