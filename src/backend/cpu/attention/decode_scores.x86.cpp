// Plain loops, compiled for several instruction sets.
#include "backend/cpu/attention/decode_scores.h"

#include "backend/cpu/simd.h"

namespace fk {
namespace {

// scores[key][head] = q[head] . k[key]; a key is read and widened once.
template <class T>
FK_INLINE void multiply_keys(const float* __restrict q, const T* const* k, int64_t keys, int64_t Dh,
                             float* __restrict scores) {
  const float *q1 = q + Dh, *q2 = q1 + Dh, *q3 = q2 + Dh;
  for (int64_t j = 0; j < keys; ++j) {
    const T* row = k[j];
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
    for (int64_t d = 0; d < Dh; ++d) {
      float x = load(row[d]);
      s0 += q[d] * x;
      s1 += q1[d] * x;
      s2 += q2[d] * x;
      s3 += q3[d] * x;
    }
    scores[j * 4] = s0;
    scores[j * 4 + 1] = s1;
    scores[j * 4 + 2] = s2;
    scores[j * 4 + 3] = s3;
  }
}

FK_SIMD_CLONES void best_scores(const float* q, const bf16* const* k, int64_t keys, int64_t Dh, float* scores) {
  multiply_keys(q, k, keys, Dh, scores);
}
FK_SIMD_CLONES void best_scores(const float* q, const f16* const* k, int64_t keys, int64_t Dh, float* scores) {
  multiply_keys(q, k, keys, Dh, scores);
}
FK_SIMD_CLONES void best_scores(const float* q, const float* const* k, int64_t keys, int64_t Dh, float* scores) {
  multiply_keys(q, k, keys, Dh, scores);
}

}  // namespace

void quad_scores(const float* q, const bf16* const* k, int64_t keys, int64_t Dh, float* scores) {
  best_scores(q, k, keys, Dh, scores);
}
void quad_scores(const float* q, const f16* const* k, int64_t keys, int64_t Dh, float* scores) {
  best_scores(q, k, keys, Dh, scores);
}
void quad_scores(const float* q, const float* const* k, int64_t keys, int64_t Dh, float* scores) {
  best_scores(q, k, keys, Dh, scores);
}

}  // namespace fk
