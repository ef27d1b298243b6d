// Products of queries and keys on any CPU: one dot product per key and query head, in loops the compiler vectorises.
#include <algorithm>

#include "backend/cpu/attention/decode.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"

namespace fk {
namespace {

// scores[key][head] = q[head] . k[key]; a key is read and widened once.
template <class T>
FK_INLINE void multiply_keys(const float* __restrict q, const void* const* k, int64_t keys, int64_t Dh,
                             float* __restrict scores) {
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

FK_SIMD_CLONES void scores_bf16(const float* q, const void* const* k, int64_t keys, int64_t Dh, float* scores) {
  multiply_keys<bf16>(q, k, keys, Dh, scores);
}
FK_SIMD_CLONES void scores_f16(const float* q, const void* const* k, int64_t keys, int64_t Dh, float* scores) {
  multiply_keys<f16>(q, k, keys, Dh, scores);
}
FK_SIMD_CLONES void scores_f32(const float* q, const void* const* k, int64_t keys, int64_t Dh, float* scores) {
  multiply_keys<float>(q, k, keys, Dh, scores);
}
// Queries in f32, [quads of the group][kQuad][Dh], zero where the group has no head.
size_t query_bytes(int64_t group, int64_t head_size) {
  return static_cast<size_t>(quads_of(group) * kQuad * head_size) * sizeof(float);
}

template <class T>
void widen(const QueryTask& t) {
  auto* to = reinterpret_cast<float*>(t.query);
  std::fill_n(to, quads_of(t.group) * kQuad * t.head_size, 0.0f);
  for (int64_t h = 0; h < t.group; ++h)
    for (int64_t d = 0; d < t.head_size; ++d) to[h * t.head_size + d] = load(static_cast<const T*>(t.q[h])[d]);
}

void prepare(const QueryTask& task) {
  with_float(task.dtype, [&]<class T>(T) { widen<T>(task); });
}

void multiply(const KeyTask& t) {
  auto multiply_all = t.dtype == DType::kBF16 ? scores_bf16 : t.dtype == DType::kF16 ? scores_f16 : scores_f32;
  for (int64_t quad = 0; quad < quads_of(t.group); ++quad) {
    const float* q = reinterpret_cast<const float*>(t.query) + quad * kQuad * t.head_size;
    multiply_all(q, t.k, t.keys, t.head_size, t.scores + quad * kDecodeKeys * kQuad);
  }
}

}  // namespace

const DecodeKernel kDecodeDot{query_bytes, prepare, multiply};

}  // namespace fk
