// Matrix products y = x w^T + bias, one function per instruction set; weights are read in the checkpoint's layout.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/thread_pool.h"

namespace fk {

// y[m, n] = x[m, k] * w[n, k]^T (+ bias[n]), accumulated in f32 and rounded once at the end. Every matrix is row-major
// with dense rows; strides count elements between rows and are at least the row's length. Pointers need only the
// alignment of their element. Nothing is read past the k (or n) elements of a row, nothing is written past row ends.
// y overlaps none of the others. Any of m, n, k may be 0; with k = 0 the result is the bias, or zero.
struct MatmulArgs {
  int64_t m = 0, n = 0, k = 0;
  const void* x = nullptr;
  int64_t x_stride = 0;
  const void* w = nullptr;
  int64_t w_stride = 0;
  const void* bias = nullptr;  // or null; dtype of w
  void* y = nullptr;
  int64_t y_stride = 0;
  DType dtype = DType::kF32;    // of x and w: kBF16, kF16 or kF32, the one in the function's name
  DType y_dtype = DType::kF32;  // kF32, or kBF16 (kF16 where x and w are)
};

// Call only functions that cpu_features() supports; it must have been called before the threads of `pool` started (the
// permission to use AMX is inherited by threads). None of them allocates after a call with the largest sizes.
void matmul_portable(const MatmulArgs& args, ThreadPool& pool);  // either dtype, any CPU

void matmul_f16(const MatmulArgs& args, ThreadPool& pool);  // x and w f16, y f16 or f32; any CPU

// x86-64
void matmul_avx2_f32(const MatmulArgs& args, ThreadPool& pool);
void matmul_avx2_bf16(const MatmulArgs& args, ThreadPool& pool);
void matmul_avx512_f32(const MatmulArgs& args, ThreadPool& pool);
void matmul_avx512_bf16(const MatmulArgs& args, ThreadPool& pool);
void matmul_amx_bf16(const MatmulArgs& args, ThreadPool& pool);
// Weights that are not stored as rows in memory: fill() writes those of 32 rows from n on, elements k .. k + 32 steps -
// 1, to [step][32 rows][32]. Rows past the last may be anything; k of the product is a multiple of 32, and args.w is
// not read.
struct WeightBlocks {
  const void* of = nullptr;
  void (*fill)(const void* of, int64_t n, int64_t k, int64_t steps, bf16* block) = nullptr;
};
void matmul_amx_bf16_of(const MatmulArgs& args, const WeightBlocks& weights, ThreadPool& pool);
void matmul_amx_f32(const MatmulArgs& args, ThreadPool& pool);  // splits f32 into bf16 parts without losing a bit

// aarch64
void matmul_neon_f32(const MatmulArgs& args, ThreadPool& pool);
void matmul_neon_bf16(const MatmulArgs& args, ThreadPool& pool);        // needs neon_bf16
void matmul_neon_widen_bf16(const MatmulArgs& args, ThreadPool& pool);  // needs neon

}  // namespace fk
