// Products of queries and keys on any CPU: one dot product per key and query head.
#include <algorithm>

#include "backend/cpu/attention/decode.h"
#include "backend/cpu/attention/decode_scores.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"

namespace fk {
namespace {

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
  for (int64_t quad = 0; quad < quads_of(t.group); ++quad) {
    const float* q = reinterpret_cast<const float*>(t.query) + quad * kQuad * t.head_size;
    with_float(t.dtype, [&]<class T>(T) {
      quad_scores(q, reinterpret_cast<const T* const*>(t.k), t.keys, t.head_size,
                  t.scores + quad * kDecodeKeys * kQuad);
    });
  }
}

}  // namespace

const DecodeKernel kDecodeDot{query_bytes, prepare, multiply};

}  // namespace fk
