#include "backend/cpu/l1/row_max.h"

#include <algorithm>

#include "backend/cpu/simd.h"

namespace fk {
namespace {

// The row is searched in blocks: only the block with the maximum is searched again for its position.
constexpr int64_t kBlock = 2048;

template <class T>
FK_INLINE int32_t max_key(const T* x, int64_t n) {
  int32_t best = INT32_MIN;
#pragma omp simd reduction(max : best)
  for (int64_t i = 0; i < n; ++i) best = std::max(best, order_key(load(x[i])));
  return best;
}

template <class T>
FK_INLINE RowMax row_max_body(const T* x, int64_t n) {
  int32_t best = INT32_MIN;
  int64_t block = 0;
  for (int64_t first = 0; first < n; first += kBlock) {
    int32_t key = max_key(x + first, std::min(kBlock, n - first));
    block = key > best ? first : block;
    best = std::max(best, key);
  }
  int64_t index = block;
  while (order_key(load(x[index])) != best) ++index;
  return {best, index};
}

template <class T>
FK_INLINE float max_number_body(const T* x, int64_t n) {
  int32_t best = kMinusInfinity;
#pragma omp simd reduction(max : best)
  for (int64_t i = 0; i < n; ++i) best = std::max(best, order_key(load(x[i]), kMinusInfinity));
  return from_order_key(best);
}

}  // namespace

FK_SIMD_CLONES RowMax row_max(const bf16* x, int64_t n) { return row_max_body(x, n); }
FK_SIMD_CLONES RowMax row_max(const f16* x, int64_t n) { return row_max_body(x, n); }
FK_SIMD_CLONES RowMax row_max(const float* x, int64_t n) { return row_max_body(x, n); }
FK_SIMD_CLONES float row_max_number(const bf16* x, int64_t n) { return max_number_body(x, n); }
FK_SIMD_CLONES float row_max_number(const f16* x, int64_t n) { return max_number_body(x, n); }
FK_SIMD_CLONES float row_max_number(const float* x, int64_t n) { return max_number_body(x, n); }

}  // namespace fk
