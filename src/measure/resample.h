// A small, fast random generator for the bootstrap, which needs a million numbers per verdict. Seeded, so verdicts
// repeat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/rng.h"

namespace fk {

class Draws {
 public:
  Draws(uint64_t seed, std::string_view purpose) : state_(stream_key(seed, purpose)) {}

  // SplitMix64.
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  size_t below(size_t n) { return static_cast<size_t>((static_cast<__uint128_t>(next()) * n) >> 64); }
  double uniform() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1p-53; }

 private:
  uint64_t state_;
};

}  // namespace fk
