// Which rows of a product belong to which block, in which order. No device code, so that a test on the CPU can check
// it.
#pragma once

#include "backend/cuda/decode_megakernel/call.h"

namespace fk::cuda {

struct PairRange {
  int begin = 0, end = 0;

  constexpr int count() const { return end - begin; }
};

// Rows are processed in pairs; in a gated product a pair is a gate row and its up row.
constexpr int pairs_of(const ProductShape& s) { return s.gated ? s.features : (s.features + 1) / 2; }

// The pairs of a block: the same number for each block, and one of the remainder for the blocks from `first_block` on.
constexpr PairRange pairs_of_block(int pairs, int block, int blocks, int first_block) {
  const int each = pairs / blocks, left = pairs % blocks;
  int at = block - first_block;
  if (at < 0) at += blocks;
  const int begin = at * each + (at < left ? at : left);
  return {begin, begin + each + (at < left ? 1 : 0)};
}

// The block that has the first pair of the next product: over a whole model blocks differ by at most one pair.
constexpr int next_first_block(int pairs, int blocks, int first_block) {
  return (first_block + pairs % blocks) % blocks;
}

}  // namespace fk::cuda
