#include "backend/cpu/attention/decode_block.h"

#include <algorithm>
#include <limits>

#include "backend/cpu/vector_math.h"

namespace fk {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kLanes = 16;  // a vector of AVX-512; of scores, four keys by four heads

// scores[key][head] = q[head] . k[key]; a key is read and widened once.
template <class T>
FK_INLINE void multiply_keys(const float* __restrict q, const void* const* k, int64_t keys, int64_t Dh, float* __restrict scores) {
  const float *q1 = q + Dh, *q2 = q1 + Dh, *q3 = q2 + Dh;
  for (int64_t j = 0; j < keys; ++j) {
    auto* row = static_cast<const T*>(k[j]);
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
    for (int64_t d = 0; d < Dh; ++d) {
      float x = load(row[d]);
      s0 += q[d] * x;
      s1 += q1[d] * x;
      s2 += q2[d] * x;
      s3 += q3[d] * x;
    }
    scores[j * kQuad] = s0;
    scores[j * kQuad + 1] = s1;
    scores[j * kQuad + 2] = s2;
    scores[j * kQuad + 3] = s3;
  }
}

// Columns d .. d+lanes-1 of the sums, kept in registers over all keys; keys > 0.
template <class T>
FK_INLINE void add_columns(const float* __restrict weights, const void* const* v, int64_t keys, int64_t Dh, int64_t d, int64_t lanes,
                           const float* __restrict rescale, float* __restrict sums) {
#pragma omp simd
  for (int64_t l = 0; l < lanes; ++l) {
    float sum[kQuad];
#pragma GCC unroll 4
    for (int64_t h = 0; h < kQuad; ++h) sum[h] = sums[h * Dh + d + l] * rescale[h];
    int64_t j = 0;
    do {  // tested at its end, since GCC vectorises the loop around it only when this one always runs
      float x = load(static_cast<const T*>(v[j])[d + l]);
#pragma GCC unroll 4
      for (int64_t h = 0; h < kQuad; ++h) sum[h] += weights[j * kQuad + h] * x;
    } while (++j < keys);
#pragma GCC unroll 4
    for (int64_t h = 0; h < kQuad; ++h) sums[h * Dh + d + l] = sum[h];
  }
}

template <class T>
FK_INLINE void add_values(const float* weights, const void* const* v, int64_t keys, int64_t Dh, const float* rescale, float* sums) {
  int64_t d = 0;
  for (; d + kLanes <= Dh; d += kLanes) add_columns<T>(weights, v, keys, Dh, d, kLanes, rescale, sums);
  if (d < Dh) add_columns<T>(weights, v, keys, Dh, d, Dh - d, rescale, sums);
}

FK_SIMD_CLONES void scores_bf16(const float* q, const void* const* k, int64_t keys, int64_t Dh, float* scores) {
  multiply_keys<bf16>(q, k, keys, Dh, scores);
}
FK_SIMD_CLONES void scores_f32(const float* q, const void* const* k, int64_t keys, int64_t Dh, float* scores) {
  multiply_keys<float>(q, k, keys, Dh, scores);
}
FK_SIMD_CLONES void sums_bf16(const float* weights, const void* const* v, int64_t keys, int64_t Dh, const float* rescale, float* sums) {
  add_values<bf16>(weights, v, keys, Dh, rescale, sums);
}
FK_SIMD_CLONES void sums_f32(const float* weights, const void* const* v, int64_t keys, int64_t Dh, const float* rescale, float* sums) {
  add_values<float>(weights, v, keys, Dh, rescale, sums);
}

FK_INLINE float shift_of(float largest) { return largest == -kInfinity ? 0.0f : largest; }

// Scores [keys][kQuad], -infinity up to a multiple of kLanes, become weights; rescale is for the sums so far.
FK_SIMD_CLONES void weigh(float* __restrict scores, int64_t keys, const QuadState& state, float* __restrict rescale) {
  int64_t n = (keys * kQuad + kLanes - 1) / kLanes * kLanes;
  std::fill(scores + keys * kQuad, scores + n, -kInfinity);
  float largest[kLanes], shift[kLanes], sum[kLanes] = {};
  for (int64_t l = 0; l < kLanes; ++l) largest[l] = state.largest[l % kQuad];
  for (int64_t i = 0; i < n; i += kLanes)
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) largest[l] = scores[i + l] > largest[l] ? scores[i + l] : largest[l];
  for (int64_t h = 0; h < kQuad; ++h) {
    for (int64_t l = h; l < kLanes; l += kQuad) largest[h] = std::max(largest[h], largest[l]);
    for (int64_t l = h; l < kLanes; l += kQuad) shift[l] = shift_of(largest[h]);
    rescale[h] = vexp(state.largest[h] - shift[h]);
    state.largest[h] = largest[h];
  }
  for (int64_t i = 0; i < n; i += kLanes)
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) {
      scores[i + l] = vexp(scores[i + l] - shift[l]);
      sum[l] += scores[i + l];
    }
  for (int64_t h = 0; h < kQuad; ++h) {
    state.weights[h] *= rescale[h];
    for (int64_t l = h; l < kLanes; l += kQuad) state.weights[h] += sum[l];
  }
}

}  // namespace

void clear_state(const QuadState& state, int64_t head_size) {
  std::fill_n(state.sums, kQuad * head_size, 0.0f);
  std::fill_n(state.largest, kQuad, -kInfinity);
  std::fill_n(state.weights, kQuad, 0.0f);
}

void decode_block(const DecodeBlockTask& t, const QuadState& state) {
  bool narrow = t.dtype == DType::kBF16;
  (narrow ? scores_bf16 : scores_f32)(t.q, t.k, t.keys, t.head_size, t.scores);
  finish_scores(t.scores, t.keys * kQuad, t.rule);
  float rescale[kQuad];
  weigh(t.scores, t.keys, state, rescale);
  (narrow ? sums_bf16 : sums_f32)(t.scores, t.v, t.keys, t.head_size, rescale, state.sums);
}

void merge_state(const QuadState& from, const QuadState& into, int64_t head_size) {
  for (int64_t h = 0; h < kQuad; ++h) {
    float largest = std::max(into.largest[h], from.largest[h]), shift = shift_of(largest);
    float a = vexp(into.largest[h] - shift), b = vexp(from.largest[h] - shift);
    float *to = into.sums + h * head_size, *add = from.sums + h * head_size;
    for (int64_t d = 0; d < head_size; ++d) to[d] = to[d] * a + add[d] * b;
    into.weights[h] = into.weights[h] * a + from.weights[h] * b;
    into.largest[h] = largest;
  }
}

}  // namespace fk
