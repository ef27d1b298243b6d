#include "backend/cpu/attention/scores.h"

#include <limits>

#include "backend/cpu/vector_math.h"

namespace fk {
namespace {

// tanh within 2e-7 of its size: near zero, where (1 - t) / (1 + t) cancels, by its series up to y^9.
FK_INLINE float vtanh(float y) {
  float a = y < 0 ? -y : y;
  float t = vexp(-2.0f * a);
  float far = (1.0f - t) / (1.0f + t);
  float y2 = y * y;
  float p = 62.0f / 2835;
  p = p * y2 - 17.0f / 315;
  p = p * y2 + 2.0f / 15;
  p = p * y2 - 1.0f / 3;
  return a < 0.25f ? p * y2 * y + y : (y < 0 ? -far : far);
}

}  // namespace

FK_SIMD_CLONES void finish_scores(float* scores, int64_t n, const ScoreRule& rule) {
  float scale = rule.scale, cap = rule.soft_cap;
  if (!(cap > 0)) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) scores[i] *= scale;
    return;
  }
  float inner = scale / cap;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) scores[i] = cap * vtanh(scores[i] * inner);
}

FK_SIMD_CLONES void mask_scores(float* scores, int64_t keys, int64_t lanes, int64_t key, const int32_t* first,
                                const int32_t* last) {
  for (int64_t j = 0; j < keys; ++j) {
    auto at = static_cast<int32_t>(key + j);
    float* row = scores + j * lanes;
#pragma omp simd
    for (int64_t l = 0; l < lanes; ++l) {
      bool seen = (at >= first[l]) & (at < last[l]);
      row[l] = seen ? row[l] : -std::numeric_limits<float>::infinity();
    }
  }
}

}  // namespace fk
