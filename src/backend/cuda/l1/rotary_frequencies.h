// Angle per position of each pair of a rotary embedding, as kernels are given them.
#pragma once

#include <vector>

#include "core/check.h"

namespace fk::cuda {

inline constexpr int kMaxRotaryPairs = 128;

// Small enough to be a kernel's argument, so that recorded work holds its own copy.
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
