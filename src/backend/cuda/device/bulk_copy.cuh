// Copies by Hopper's copy engine (TMA): one thread starts the copy of a box of a matrix, whose bytes a barrier in
// shared memory counts (arrive_expecting in cluster.cuh).
#pragma once

#include <cuda.h>

#include <cstdint>

namespace fk::cuda {

// `map` is a __grid_constant__ parameter of the kernel. The bytes of the whole box are counted, also those outside the
// matrix, which become zeros.
__device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap& map, int column, int row, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

// The same into all blocks of the cluster that have a bit in `blocks`, at the same place of their shared memory; in
// each, the barrier at the same place counts the bytes.
__device__ __forceinline__ void copy_box_to(uint16_t blocks, uint32_t to, const CUtensorMap& map, int column, int row,
                                            uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, "
      "%3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier), "h"(blocks)
      : "memory");
}

}  // namespace fk::cuda
