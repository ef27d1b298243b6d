// Tiles of 16-bit elements for tensor cores: asynchronous copies into shared memory, conflict-free placement there,
// and the instructions that read and multiply them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace fk::cuda {

// A tile of kColumns elements a row, 16-byte chunks of a row permuted by the row index: eight rows read at one column
// are then in eight different groups of banks.
template <int kColumns>
struct Tile {
  static constexpr int kChunks = kColumns / 8;
  static_assert(kChunks % 8 == 0, "a row must fill all 32 banks");

  uint32_t base;  // shared-memory address

  __device__ __forceinline__ uint32_t chunk(int row, int index) const {
    return base + static_cast<uint32_t>((row * kChunks + (index ^ (row & 7))) * 16);
  }
};

// Asynchronous copy of 16 bytes from global to shared memory; zeros if not `valid`.
__device__ __forceinline__ void copy_async(uint32_t shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(valid ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most kPending groups of copies are in flight.
template <int kPending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Four 8 x 8 matrices; lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void load_matrices(uint32_t (&m)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&m)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}

// sum [16 x 8] += a [16 x 16] b [16 x 8], in the layout of mma.m16n8k16.
template <class T>
__device__ __forceinline__ void multiply_tile(float (&sum)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                              uint32_t b0, uint32_t b1);
template <>
__device__ __forceinline__ void multiply_tile<__nv_bfloat16>(float (&sum)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                                             uint32_t a3, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void multiply_tile<__half>(float (&sum)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                                      uint32_t a3, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// The low or the high halves of two registers, as a pair.
__device__ __forceinline__ uint32_t low_halves(uint32_t first, uint32_t second) {
  return __byte_perm(first, second, 0x5410);
}
__device__ __forceinline__ uint32_t high_halves(uint32_t first, uint32_t second) {
  return __byte_perm(first, second, 0x7632);
}

template <class T>
__device__ __forceinline__ uint32_t pack_two(float low, float high);
template <>
__device__ __forceinline__ uint32_t pack_two<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}
template <>
__device__ __forceinline__ uint32_t pack_two<__half>(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}

}  // namespace fk::cuda
