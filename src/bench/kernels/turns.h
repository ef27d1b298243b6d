// Rotation of memory places among the sides.
#pragma once

#include <array>
#include <cstddef>

namespace fk {

// The place of each of n sides in that turn: in n consecutive turns each side has every place once, and in every turn
// each place belongs to one side. `places` is the order of rotation.
template <size_t n>
std::array<int, n> handed_round(const std::array<int, n>& places, int turn) {
  std::array<int, n> of_side{};
  for (size_t side = 0; side < n; ++side) of_side[side] = places[(side + static_cast<size_t>(turn)) % n];
  return of_side;
}

}  // namespace fk
