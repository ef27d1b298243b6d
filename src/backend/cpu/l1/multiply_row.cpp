#include "backend/cpu/l1/multiply_row.h"

#include "backend/cpu/simd.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void multiply_row_body(const T* x, float factor, T* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], load(x[i]) * factor);
}

}  // namespace

FK_SIMD_CLONES void multiply_row(const bf16* x, float factor, bf16* out, int64_t n) {
  multiply_row_body(x, factor, out, n);
}
FK_SIMD_CLONES void multiply_row(const f16* x, float factor, f16* out, int64_t n) {
  multiply_row_body(x, factor, out, n);
}
FK_SIMD_CLONES void multiply_row(const float* x, float factor, float* out, int64_t n) {
  multiply_row_body(x, factor, out, n);
}

}  // namespace fk
