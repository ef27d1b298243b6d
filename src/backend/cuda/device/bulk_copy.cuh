// Copies by Hopper's copy engine (TMA): one thread starts the copy of a box of a matrix or of consecutive bytes, which
// a barrier in shared memory counts (arrive_expecting in cluster.cuh).
#pragma once

#include <cuda.h>

#include <cstdint>

namespace fk::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* in_shared_memory) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(in_shared_memory));
}

// Both addresses and the number of bytes are multiples of 16.
__device__ __forceinline__ void copy_bytes(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

// `map` is a __grid_constant__ parameter of the kernel. The bytes of the whole box are counted, also those outside the
// matrix, which become zeros.
__device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap& map, int column, int row, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

// Copies a box of a three-dimensional tensor; its place begins with the innermost dimension.
__device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap& map, int column, int middle, int outer,
                                         uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::
          "r"(to),
      "l"(&map), "r"(column), "r"(middle), "r"(outer), "r"(barrier)
      : "memory");
}

// A box of a matrix into all blocks of the cluster that have a bit in `blocks`, at the same place of their shared
// memory; in each, the barrier at the same place counts the bytes.
__device__ __forceinline__ void copy_box_to(uint16_t blocks, uint32_t to, const CUtensorMap& map, int column, int row,
                                            uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, "
      "%3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier), "h"(blocks)
      : "memory");
}

}  // namespace fk::cuda
