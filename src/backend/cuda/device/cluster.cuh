// Blocks of a cluster: they start together, and copy into each other's shared memory (Hopper).
#pragma once

#include <cstdint>

namespace fk::cuda {

// A barrier of all threads of the cluster in two steps: a thread arrives, continues, and waits later. Older devices
// have no clusters; kernels that need them must not be launched there.
__device__ __forceinline__ void arrive_at_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// Makes barriers initialised by one thread visible to the other blocks after the next cluster barrier.
__device__ __forceinline__ void show_barriers_to_cluster() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// The address in block `rank` of the cluster that corresponds to `address` in this block.
__device__ __forceinline__ uint32_t shared_of(uint32_t address, uint32_t rank) {
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

// The number of this block in its cluster.
__device__ __forceinline__ uint32_t block_of_cluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Arrives at a barrier of any block of the cluster, by its address from shared_of(), after products have read a
// buffer. Nothing that this thread wrote must become visible to the other block, so the default scope is enough; with
// .release.cluster the compiler would emit fences of the whole device.
__device__ __forceinline__ void arrive_there(uint32_t barrier_there) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier_there) : "memory");
}

// Starts a copy from shared memory to that of another block, where a barrier counts the received bytes. Both addresses
// are 16-byte aligned. Earlier writes of threads need a fence (show_shared_memory_to_products).
__device__ __forceinline__ void send(uint32_t there, uint32_t from, uint32_t bytes, uint32_t barrier_there) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n"
      "cp.async.bulk.commit_group;" ::"r"(there),
      "r"(from), "r"(bytes), "r"(barrier_there)
      : "memory");
}
// Waits until the source of this thread's copies may be overwritten.
__device__ __forceinline__ void wait_until_sent() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

// Arrives at a barrier of this block; its phase ends when this many bytes have been received.
__device__ __forceinline__ void arrive_expecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

}  // namespace fk::cuda
