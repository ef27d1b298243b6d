// Angle per position of each pair of a rotary embedding, as a kernel argument.
#pragma once

#include <vector>

#include "core/check.h"

namespace fk::cuda {

inline constexpr int kMaxRotaryPairs = 256;

// Small enough for a kernel argument, so that a graph has its own copy.
struct RotaryFrequencies {
  double at[kMaxRotaryPairs];
  int pairs;
  float factor;  // of sines and cosines

  // From RotaryEmbedding::inverse_frequencies.
  static RotaryFrequencies of(const std::vector<double>& frequencies, double factor = 1) {
    FK_CHECK(frequencies.size() <= kMaxRotaryPairs);
    RotaryFrequencies all{};
    all.factor = static_cast<float>(factor);
    for (double f : frequencies) all.at[all.pairs++] = f;
    return all;
  }
};

}  // namespace fk::cuda
