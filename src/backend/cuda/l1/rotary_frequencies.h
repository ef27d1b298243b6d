// Angle per position of each pair of a rotary embedding, as a kernel argument.
#pragma once

#include <vector>

#include "core/check.h"

namespace fk::cuda {

inline constexpr int kMaxRotaryPairs = 128;

// Small enough for a kernel argument, so that a graph has its own copy.
struct RotaryFrequencies {
  double at[kMaxRotaryPairs];
  int pairs;

  // From RotaryEmbedding::inverse_frequencies.
  static RotaryFrequencies of(const std::vector<double>& frequencies) {
    FK_CHECK(frequencies.size() <= kMaxRotaryPairs);
    RotaryFrequencies all{};
    for (double f : frequencies) all.at[all.pairs++] = f;
    return all;
  }
};

}  // namespace fk::cuda
