// The arithmetic of decoding: some keys and values of one kv head against four of the query heads that share it.
#pragma once

#include <cstdint>

#include "backend/cpu/attention/scores.h"
#include "core/dtype.h"

namespace fk {

inline constexpr int64_t kDecodeKeys = 32;  // at most, of a block
inline constexpr int64_t kQuad = 4;         // query heads treated together

// Head sizes are padded to whole vectors.
inline constexpr int64_t kSumLanes = 16;
inline int64_t padded_head(int64_t head_size) { return (head_size + kSumLanes - 1) / kSumLanes * kSumLanes; }

// What a quad of heads has gathered from some keys: the values weighted with e^(score - largest), summed up, as panels
// [padded Dh / kSumLanes][kQuad][kSumLanes]; the largest score of each head; the sum of its weights.
struct QuadState {
  float* sums;
  float* largest;
  float* weights;

  static int64_t width(int64_t head_size) { return kQuad * (padded_head(head_size) + 2); }
  QuadState(float* at, int64_t head_size) : sums(at), largest(at + kQuad * padded_head(head_size)), weights(largest + kQuad) {}

  float sum(int64_t head, int64_t d) const { return sums[d / kSumLanes * kSumLanes * kQuad + head * kSumLanes + d % kSumLanes]; }
};

void clear_state(const QuadState& state, int64_t head_size);

struct DecodeBlockTask {
  const float* q;        // [kQuad][head_size]
  const void* const* k;  // addresses of `keys` rows
  const void* const* v;
  int64_t keys;  // 1 .. kDecodeKeys
  int64_t head_size;
  DType dtype;
  ScoreRule rule;
  float* scores;  // scratch, [kDecodeKeys][kQuad]
  float* values;  // scratch, [kDecodeKeys][padded Dh]
};

void decode_block(const DecodeBlockTask& task, const QuadState& state);

// Joins what another set of keys gave.
void merge_state(const QuadState& from, const QuadState& into, int64_t head_size);

}  // namespace fk
