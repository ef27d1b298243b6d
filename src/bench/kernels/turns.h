// Orders of the sides, and rotation of memories among them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "core/rng.h"

namespace fk {

// The memory of each of n sides in a turn: in n consecutive turns each side uses every memory once, and in every turn
// each memory belongs to one side. `places` is the order of rotation.
template <size_t n>
std::array<int, n> handed_round(const std::array<int, n>& places, int turn) {
  std::array<int, n> of_side{};
  for (size_t side = 0; side < n; ++side) of_side[side] = places[(side + static_cast<size_t>(turn)) % n];
  return of_side;
}

// The opposite order of rotation. Over n turns the speeds of the memories cancel out of the mean of the ratios of two
// sides, but not out of their median: it may be -1, -1 and +2 %. After as many turns in the opposite order every ratio
// exists with both signs.
template <size_t n>
std::array<int, n> opposite(std::array<int, n> places) {
  std::reverse(places.begin(), places.end());
  return places;
}

// A random order of n sides; `draws` counts the numbers taken from the stream.
template <size_t n>
std::array<int, n> shuffled(const Stream& random, uint64_t& draws) {
  std::array<int, n> order{};
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = n - 1; i > 0; --i) std::swap(order[i], order[random.below(draws++, i + 1)]);
  return order;
}

// `count` of the numbers below n, in random order.
inline std::vector<int> some_of(int n, int count, const Stream& random, uint64_t& draws) {
  std::vector<int> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i)
    std::swap(all[i], all[i + random.below(draws++, all.size() - i)]);
  all.resize(static_cast<size_t>(count));
  return all;
}

}  // namespace fk
