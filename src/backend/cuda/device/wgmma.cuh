// Products of warpgroups on Hopper (wgmma, sm_90a only): four warps multiply a tile of 64 rows together, with one or
// both factors in shared memory, asynchronously.
//
// Layout of a tile in shared memory ("128-byte swizzle"): consecutive panels of 64 16-bit columns; in a panel a row is
// 128 bytes, and chunk c (16 bytes) of row r is at position c ^ (r % 8). The pattern repeats every 8 rows, 1024 bytes,
// and panels must start at multiples of that. The same tile serves as a factor whose columns are summed over (queries,
// keys: "K-major") and as a right factor whose rows are summed over (values: "MN-major", transposed).
//
// Layout of a sum [64, N] in registers: warp w of the four has rows 16 w to 16 w + 15; of these, lane l has rows l / 4
// and l / 4 + 8, in each group of 8 columns the two from 2 (l % 4) on. sum[4 n + i] is column 8 n + 2 (l % 4) + i % 2
// of the upper (i < 2) or lower row. A left factor [64, 16] in registers is laid out as the sums of 16 columns are, two
// elements a register: {upper, lower} of columns 0-7, then of 8-15.
//
// Rules: call begin_products() after the last normal access to the registers of a product and before the product; its
// registers must not be accessed until wait_products() returns. The compiler does not know these rules, so hold() keeps
// the values in place.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace fk::cuda {

inline constexpr uint32_t kPanelRowBytes = 128;
inline constexpr uint32_t kPatternBytes = 8 * kPanelRowBytes;

// Byte offset of chunk `chunk` (0-7) of row `row` of a panel.
__device__ __forceinline__ uint32_t panel_place(int row, int chunk) {
  return static_cast<uint32_t>(row) * kPanelRowBytes + static_cast<uint32_t>((chunk ^ (row & 7)) * 16);
}

// A matrix descriptor: bits 0-13 the start, 16-29 the leading and 32-45 the stride offset, all in units of 16 bytes;
// bits 62-63 are 1 for the 128-byte swizzle. The stride is from 8 rows to the next 8. The leading offset is from panel
// to panel where rows are summed over; where columns are, it is not used, because a product sums over 16 columns only.
// To advance within a tile, add bytes to the start, since the swizzle depends only on address bits.
__device__ __forceinline__ uint64_t matrix_descriptor(uint32_t start, uint32_t panel_bytes) {
  return static_cast<uint64_t>((start & 0x3FFFF) >> 4) | static_cast<uint64_t>(panel_bytes >> 4) << 16 |
         static_cast<uint64_t>(kPatternBytes >> 4) << 32 | uint64_t{1} << 62;
}
__device__ __forceinline__ uint64_t advance(uint64_t descriptor, uint32_t bytes) { return descriptor + (bytes >> 4); }

// Fence between copies into shared memory (generic proxy) and reads by products (asynchronous proxy).
__device__ __forceinline__ void show_shared_memory_to_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most kPending committed groups are in flight.
template <int kPending>
__device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

template <int N>
__device__ __forceinline__ void hold(float (&values)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(values[i])::"memory");
}
template <int M, int N>
__device__ __forceinline__ void hold(uint32_t (&values)[M][N]) {
#pragma unroll
  for (int i = 0; i < M * N; ++i) asm volatile("" : "+r"(values[i / N][i % N])::"memory");
}

#define FK_SUMS_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define FK_SUMS_16 \
  FK_SUMS_8        \
  ", %8, %9, %10, %11, %12, %13, %14, %15"
#define FK_SUMS_32 \
  FK_SUMS_16       \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define FK_SUMS_48 \
  FK_SUMS_32       \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define FK_SUMS_64 \
  FK_SUMS_48       \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FK_SUMS_80 \
  FK_SUMS_64       \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define FK_SUMS_88 \
  FK_SUMS_80       \
  ", %80, %81, %82, %83, %84, %85, %86, %87"
#define FK_SUMS_96 \
  FK_SUMS_88       \
  ", %88, %89, %90, %91, %92, %93, %94, %95"
#define FK_SUMS_128                                                                              \
  FK_SUMS_96                                                                                     \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

#define FK_HOLD_8(d, i)                                                                                       \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define FK_HOLD_16(d, i) FK_HOLD_8(d, i), FK_HOLD_8(d, i + 8)
#define FK_HOLD_32(d, i) FK_HOLD_16(d, i), FK_HOLD_16(d, i + 16)
#define FK_HOLD_48(d, i) FK_HOLD_32(d, i), FK_HOLD_16(d, i + 32)
#define FK_HOLD_64(d, i) FK_HOLD_32(d, i), FK_HOLD_32(d, i + 32)
#define FK_HOLD_80(d, i) FK_HOLD_64(d, i), FK_HOLD_16(d, i + 64)
#define FK_HOLD_88(d, i) FK_HOLD_80(d, i), FK_HOLD_8(d, i + 80)
#define FK_HOLD_96(d, i) FK_HOLD_64(d, i), FK_HOLD_32(d, i + 64)
#define FK_HOLD_128(d, i) FK_HOLD_64(d, i), FK_HOLD_64(d, i + 64)

// Last operands: whether to add to the sums, both factors' signs, and which factors in shared memory are transposed.
#define FK_WGMMA_SHARED(type, n, count, a, b, add)                                                                  \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" add ", 0;\nwgmma.mma_async.sync.aligned.m64n" n "k16.f32." type \
               "." type " {" FK_SUMS_##count "}, %" a ", %" b ", p, 1, 1, 0, 0;\n}"                                 \
               : FK_HOLD_##count(sum, 0)                                                                            \
               : "l"(left), "l"(right), "r"(static_cast<int>(accumulate))                                           \
               : "memory")
#define FK_WGMMA_REGISTERS(type, n, count, a0, a1, a2, a3, b, add)                                                  \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" add ", 0;\nwgmma.mma_async.sync.aligned.m64n" n "k16.f32." type \
               "." type " {" FK_SUMS_##count "}, {%" a0 ", %" a1 ", %" a2 ", %" a3 "}, %" b ", p, 1, 1, 1;\n}"      \
               : FK_HOLD_##count(sum, 0)                                                                            \
               : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(1)                         \
               : "memory")

#define FK_WGMMA_EITHER(n, count, a, b, add)      \
  if constexpr (std::is_same_v<T, __nv_bfloat16>) \
    FK_WGMMA_SHARED("bf16", n, count, a, b, add); \
  else                                            \
    FK_WGMMA_SHARED("f16", n, count, a, b, add)

// sum [64, 2 kUsed] (+)= left [64, 16] right [2 kUsed, 16] transposed: both factors in shared memory, summed over their
// columns. A thread holds kUsed of the sums; without a number, all of `sum`.
template <class T, int kUsed = 0, int kSums>
__device__ __forceinline__ void multiply_rows(float (&sum)[kSums], uint64_t left, uint64_t right, bool accumulate) {
  constexpr int kCount = kUsed == 0 ? kSums : kUsed;
  static_assert(kCount <= kSums);
  if constexpr (kCount == 8) {
    FK_WGMMA_EITHER("16", 8, "8", "9", "10");
  } else if constexpr (kCount == 16) {
    FK_WGMMA_EITHER("32", 16, "16", "17", "18");
  } else if constexpr (kCount == 32) {
    FK_WGMMA_EITHER("64", 32, "32", "33", "34");
  } else if constexpr (kCount == 48) {
    FK_WGMMA_EITHER("96", 48, "48", "49", "50");
  } else if constexpr (kCount == 64) {
    FK_WGMMA_EITHER("128", 64, "64", "65", "66");
  } else if constexpr (kCount == 80) {
    FK_WGMMA_EITHER("160", 80, "80", "81", "82");
  } else if constexpr (kCount == 88) {
    FK_WGMMA_EITHER("176", 88, "88", "89", "90");
  } else if constexpr (kCount == 96) {
    FK_WGMMA_EITHER("192", 96, "96", "97", "98");
  } else {
    static_assert(kCount == 128);
    FK_WGMMA_EITHER("256", 128, "128", "129", "130");
  }
}

// sum [64, 2 kSums] += left [64, 16] right [16, 2 kSums]: the left factor in registers, the right one in shared memory
// and summed over its rows.
template <class T, int kSums>
__device__ __forceinline__ void multiply_by_rows(float (&sum)[kSums], const uint32_t (&left)[4], uint64_t right) {
  static_assert(kSums == 32 || kSums == 64 || kSums == 128);
  constexpr bool kBF16 = std::is_same_v<T, __nv_bfloat16>;
  if constexpr (kSums == 32 && kBF16)
    FK_WGMMA_REGISTERS("bf16", "64", 32, "32", "33", "34", "35", "36", "37");
  else if constexpr (kSums == 32)
    FK_WGMMA_REGISTERS("f16", "64", 32, "32", "33", "34", "35", "36", "37");
  else if constexpr (kSums == 64 && kBF16)
    FK_WGMMA_REGISTERS("bf16", "128", 64, "64", "65", "66", "67", "68", "69");
  else if constexpr (kSums == 64)
    FK_WGMMA_REGISTERS("f16", "128", 64, "64", "65", "66", "67", "68", "69");
  else if constexpr (kBF16)
    FK_WGMMA_REGISTERS("bf16", "256", 128, "128", "129", "130", "131", "132", "133");
  else
    FK_WGMMA_REGISTERS("f16", "256", 128, "128", "129", "130", "131", "132", "133");
}

#undef FK_WGMMA_REGISTERS
#undef FK_WGMMA_EITHER
#undef FK_WGMMA_SHARED
#undef FK_HOLD_128
#undef FK_HOLD_96
#undef FK_HOLD_88
#undef FK_HOLD_80
#undef FK_HOLD_64
#undef FK_HOLD_48
#undef FK_HOLD_32
#undef FK_HOLD_16
#undef FK_HOLD_8
#undef FK_SUMS_128
#undef FK_SUMS_96
#undef FK_SUMS_88
#undef FK_SUMS_80
#undef FK_SUMS_64
#undef FK_SUMS_48
#undef FK_SUMS_32
#undef FK_SUMS_16
#undef FK_SUMS_8

}  // namespace fk::cuda
