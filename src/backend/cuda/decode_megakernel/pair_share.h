// Which rows of a product belong to which block, in which order. No device code, so that a test on the CPU can check
// it.
//
// Rows are processed in pairs; in a gated product a pair is a gate row and its up row. A block has its pairs in rounds
// of up to kTokenWarps, one for each warp, and a round in chunks that fill a slot of shared memory: the same columns of
// all its rows.
#pragma once

#include "backend/cuda/decode_megakernel/call.h"

namespace fk::cuda {

inline constexpr int kTokenWarps = 16;            // of a block, that compute
inline constexpr int kStepBytes = 2 * 2 * kStep;  // of two rows of 16-bit elements
inline constexpr int kSlotBytes = kTokenWarps * 2 * kStepBytes;

struct PairRange {
  int begin = 0, end = 0;

  constexpr int count() const { return end - begin; }
};

constexpr int pairs_of(const ProductShape& s) { return s.gated ? s.features : (s.features + 1) / 2; }

// The columns of a chunk of so many pairs.
constexpr int chunk_columns(int pairs) { return kSlotBytes / (pairs * kStepBytes) * kStep; }

// The rounds of `count` pairs whose rows have `length` columns: the ones with the fewest chunks, so that slots are as
// full as possible; of several the most equal ones.
constexpr PairRounds rounds_of(int count, int length) {
  PairRounds best{};
  int fewest = 0;
  if (count == 0) return best;
  const int fewest_rounds = (count + kTokenWarps - 1) / kTokenWarps;
  for (int pairs = (count + fewest_rounds - 1) / fewest_rounds; pairs <= kTokenWarps && pairs <= count; ++pairs) {
    const int full = (count - 1) / pairs, last = count - full * pairs;
    const PairRounds rounds{pairs, chunk_columns(pairs), chunk_columns(last)};
    const int chunks = full * ((length + rounds.columns - 1) / rounds.columns) +
                       (length + rounds.columns_of_last - 1) / rounds.columns_of_last;
    if (fewest == 0 || chunks < fewest) best = rounds, fewest = chunks;
  }
  return best;
}

// `length`: of a row, as 16-bit elements.
constexpr PairDivision divide_pairs(int pairs, int length, int blocks) {
  const int each = pairs / blocks;
  return {each, pairs % blocks, {rounds_of(each, length), rounds_of(each + 1, length)}};
}

// The pairs of a block: the same number for each block, and one of the remainder for the blocks from `first_block` on.
constexpr PairRange pairs_of_block(const PairDivision& d, int block, int blocks, int first_block) {
  int at = block - first_block;
  if (at < 0) at += blocks;
  const int begin = at * d.each + (at < d.left ? at : d.left);
  return {begin, begin + d.each + (at < d.left ? 1 : 0)};
}

// The block that has the first pair of the next product: over a whole model blocks differ by at most one pair.
constexpr int next_first_block(const PairDivision& d, int blocks, int first_block) {
  const int next = first_block + d.left;
  return next < blocks ? next : next - blocks;
}

}  // namespace fk::cuda
