#include "backend/cpu/attention/decode_block.h"

#include <algorithm>
#include <limits>

#include "backend/cpu/vector_math.h"

namespace fk {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kLanes = kSumLanes;  // of scores, four keys by four heads

// Values in f32 as panels [padded Dh / kLanes][keys][kLanes], zero from Dh on.
template <class T>
FK_INLINE void widen_rows(const void* const* v, int64_t keys, int64_t Dh, float* __restrict panels) {
  for (int64_t d = 0; d < Dh; d += kLanes) {
    int64_t whole = std::min(Dh - d, kLanes);
    for (int64_t j = 0; j < keys; ++j, panels += kLanes) {
      auto* row = static_cast<const T*>(v[j]) + d;
      if (whole == kLanes) {
#pragma omp simd
        for (int64_t l = 0; l < kLanes; ++l) panels[l] = load(row[l]);
      } else {
        for (int64_t l = 0; l < kLanes; ++l) panels[l] = l < whole ? load(row[l]) : 0.0f;
      }
    }
  }
}

FK_SIMD_CLONES void widen_bf16(const void* const* v, int64_t keys, int64_t Dh, float* panels) {
  widen_rows<bf16>(v, keys, Dh, panels);
}
FK_SIMD_CLONES void widen_f16(const void* const* v, int64_t keys, int64_t Dh, float* panels) {
  widen_rows<f16>(v, keys, Dh, panels);
}
FK_SIMD_CLONES void widen_f32(const void* const* v, int64_t keys, int64_t Dh, float* panels) {
  widen_rows<float>(v, keys, Dh, panels);
}

// sums[kQuad][kLanes] = sums * rescale + weights[keys][kQuad] * panel[keys][kLanes]; keys > 0.
FK_SIMD_CLONES void add_values(const float* __restrict weights, const float* __restrict panel, int64_t keys,
                               const float* __restrict rescale, float* __restrict sums) {
#pragma omp simd
  for (int64_t l = 0; l < kLanes; ++l) {
    float sum[kQuad];
#pragma GCC unroll 4
    for (int64_t h = 0; h < kQuad; ++h) sum[h] = sums[h * kLanes + l] * rescale[h];
    int64_t j = 0;
    do {  // tested at its end, since GCC vectorises the loop around it only when this one always runs
#pragma GCC unroll 4
      for (int64_t h = 0; h < kQuad; ++h) sum[h] += weights[j * kQuad + h] * panel[j * kLanes + l];
    } while (++j < keys);
#pragma GCC unroll 4
    for (int64_t h = 0; h < kQuad; ++h) sums[h * kLanes + l] = sum[h];
  }
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
  std::fill_n(state.sums, kQuad * padded_head(head_size), 0.0f);
  std::fill_n(state.largest, kQuad, -kInfinity);
  std::fill_n(state.weights, kQuad, 0.0f);
}

void add_block(const DecodeBlockTask& t, const QuadState& state) {
  finish_scores(t.scores, t.keys * kQuad, t.rule);
  float rescale[kQuad];
  weigh(t.scores, t.keys, state, rescale);
  auto widen = t.dtype == DType::kBF16 ? widen_bf16 : t.dtype == DType::kF16 ? widen_f16 : widen_f32;
  widen(t.v, t.keys, t.head_size, t.panels);
  for (int64_t d = 0; d < t.head_size; d += kLanes)
    add_values(t.scores, t.panels + d * t.keys, t.keys, rescale, state.sums + d * kQuad);
}

void merge_state(const QuadState& from, const QuadState& into, int64_t head_size) {
  float keep[kQuad], add[kQuad];
  for (int64_t h = 0; h < kQuad; ++h) {
    float largest = std::max(into.largest[h], from.largest[h]), shift = shift_of(largest);
    keep[h] = vexp(into.largest[h] - shift);
    add[h] = vexp(from.largest[h] - shift);
    into.weights[h] = into.weights[h] * keep[h] + from.weights[h] * add[h];
    into.largest[h] = largest;
  }
  for (int64_t d = 0; d < head_size; d += kLanes)
    for (int64_t h = 0; h < kQuad; ++h)
      for (int64_t i = d * kQuad + h * kLanes, end = i + kLanes; i < end; ++i)
        into.sums[i] = into.sums[i] * keep[h] + from.sums[i] * add[h];
}

}  // namespace fk
