// Two keys at a time: queries are loaded once for both, and eight sums hide the latency of FMLA. Explicit vectors: g++
// 12 adds up the sums of a key one by one.
#include "backend/cpu/attention/decode_scores.h"

#include "backend/cpu/neon_loads.arm64.h"
#include "backend/cpu/simd.h"

namespace fk {
namespace {

template <int kKeys, class T>
FK_INLINE void some_keys(const float* q, const T* const* k, int64_t Dh, float* scores) {
  float32x4_t sums[kKeys][4];
#pragma GCC unroll 2
  for (int j = 0; j < kKeys; ++j)
#pragma GCC unroll 4
    for (int h = 0; h < 4; ++h) sums[j][h] = vdupq_n_f32(0);
  int64_t d = 0;
  for (; d + 8 <= Dh; d += 8) {
    float32x4x2_t key[kKeys];
#pragma GCC unroll 2
    for (int j = 0; j < kKeys; ++j) key[j] = neon::load8(k[j] + d);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half)
#pragma GCC unroll 4
      for (int h = 0; h < 4; ++h) {
        float32x4_t query = vld1q_f32(q + h * Dh + d + 4 * half);
#pragma GCC unroll 2
        for (int j = 0; j < kKeys; ++j) sums[j][h] = vfmaq_f32(sums[j][h], key[j].val[half], query);
      }
  }
#pragma GCC unroll 2
  for (int j = 0; j < kKeys; ++j) {
    float32x4_t all = vpaddq_f32(vpaddq_f32(sums[j][0], sums[j][1]), vpaddq_f32(sums[j][2], sums[j][3]));
    vst1q_f32(scores + 4 * j, all);
    for (int64_t i = d; i < Dh; ++i)
      for (int h = 0; h < 4; ++h) scores[4 * j + h] += q[h * Dh + i] * load(k[j][i]);
  }
}

template <class T>
void all_keys(const float* q, const T* const* k, int64_t keys, int64_t Dh, float* scores) {
  constexpr int64_t kAhead = 8;
  int64_t j = 0;
  for (; j + 2 <= keys; j += 2) {
    // Keys of one head lie far apart, which the hardware does not prefetch.
    if (j + kAhead + 2 <= keys)
      for (int64_t d = 0; d < Dh; d += 64 / int64_t{sizeof(T)}) {
        __builtin_prefetch(k[j + kAhead] + d);
        __builtin_prefetch(k[j + kAhead + 1] + d);
      }
    some_keys<2>(q, k + j, Dh, scores + 4 * j);
  }
  for (; j < keys; ++j) some_keys<1>(q, k + j, Dh, scores + 4 * j);
}

}  // namespace

void quad_scores(const float* q, const bf16* const* k, int64_t keys, int64_t Dh, float* scores) {
  all_keys(q, k, keys, Dh, scores);
}
void quad_scores(const float* q, const f16* const* k, int64_t keys, int64_t Dh, float* scores) {
  all_keys(q, k, keys, Dh, scores);
}
void quad_scores(const float* q, const float* const* k, int64_t keys, int64_t Dh, float* scores) {
  all_keys(q, k, keys, Dh, scores);
}

}  // namespace fk
