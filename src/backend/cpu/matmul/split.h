// How products are split over threads: rows in one contiguous piece per thread, or columns dynamically.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fk {

struct Range {
  int64_t begin = 0, end = 0;
};

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Part `part` of 0 .. total-1 cut into `parts` pieces whose borders are multiples of `unit`.
inline Range split_range(int64_t total, int64_t unit, int64_t part, int64_t parts) {
  int64_t units = ceil_div(total, unit);
  int64_t begin = units * part / parts * unit, end = units * (part + 1) / parts * unit;
  return {begin < total ? begin : total, end < total ? end : total};
}

// How many columns a thread takes at a time: a multiple of `unit`, `most` where there are plenty, and so few that every
// thread gets several pieces, so that a thread on a slow core does not delay the others.
inline int64_t columns_of_a_turn(int64_t columns, int64_t unit, int64_t most, int64_t threads) {
  constexpr int64_t kTurns = 4;
  return std::clamp(ceil_div(ceil_div(columns, kTurns * threads), unit) * unit, unit, most);
}

}  // namespace fk
