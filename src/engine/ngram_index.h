// NgramIndex: finds where the last tokens of a sequence stood before, and guesses that the same tokens follow again.
// Positions with equal n-grams are chained, newest first, as compressors of the LZ77 family find matches, so a step
// costs no more for a long sequence than for a short one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/speculation.h"

namespace fk {

class NgramIndex {
 public:
  // Appends up to `count` guesses of the tokens after `tokens` to `drafts`: those that followed the longest of the last
  // prompt_lookup_max to prompt_lookup_min tokens where it stood before, of equally long ones the newest. Where that
  // place is so near that its tokens are not enough, the guesses repeat. The tokens must begin with those of the call
  // before.
  void guess(std::span<const int64_t> tokens, const SpeculativeOptions& options, int64_t count,
             std::vector<int64_t>& drafts);

 private:
  void add(std::span<const int64_t> tokens, int64_t length, int64_t end);
  size_t bucket(std::span<const int64_t> ngram) const;

  std::vector<int32_t> newest_;    // by hash: where the newest n-gram ends; -1: none
  std::vector<int32_t> previous_;  // by the position where an n-gram ends: where one with the same hash ended before
};

}  // namespace fk
