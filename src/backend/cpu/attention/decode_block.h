// The second part of decoding: an online softmax of the scores and the weighted sum of values, for four query heads
// that share a kv head.
#pragma once

#include <cstdint>

#include "backend/cpu/attention/scores.h"
#include "core/dtype.h"

namespace fk {

inline constexpr int64_t kDecodeKeys = 64;  // at most, of a block
inline constexpr int64_t kQuad = 4;         // query heads treated together

// Head sizes are padded to whole vectors.
inline constexpr int64_t kSumLanes = 16;
inline int64_t padded_head(int64_t head_size) { return (head_size + kSumLanes - 1) / kSumLanes * kSumLanes; }

// The partial result of four heads over some keys: the values weighted with e^(score - largest), summed up, as panels
// [padded Dh / kSumLanes][kQuad][kSumLanes]; the largest score of each head; the sum of its weights.
struct QuadState {
  float* sums;
  float* largest;
  float* weights;

  static int64_t width(int64_t head_size) { return kQuad * (padded_head(head_size) + 2); }
  QuadState(float* at, int64_t head_size)
      : sums(at), largest(at + kQuad * padded_head(head_size)), weights(largest + kQuad) {}

  float sum(int64_t head, int64_t d) const {
    return sums[d / kSumLanes * kSumLanes * kQuad + head * kSumLanes + d % kSumLanes];
  }
};

void clear_state(const QuadState& state, int64_t head_size);

// Adds the weighted values of 1 .. kDecodeKeys keys: scores [keys][kQuad] are products q . k at first and weights
// afterwards, and memory after them up to the next multiple of kSumLanes floats is overwritten; v holds the addresses
// of the values, `panels` is scratch for keys * padded_head(Dh) floats.
struct DecodeBlockTask {
  float* scores;
  const void* const* v;
  int64_t keys;
  int64_t head_size;
  DType dtype;
  ScoreRule rule;
  float* panels;
};
void add_block(const DecodeBlockTask& task, const QuadState& state);

// Combines the result with that of another set of keys.
void merge_state(const QuadState& from, const QuadState& into, int64_t head_size);

}  // namespace fk
