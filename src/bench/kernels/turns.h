// Rotation of memories among the sides.
#pragma once

#include <array>
#include <cstddef>

namespace fk {

// The memory of each of n sides in a turn: in n consecutive turns each side uses every memory once, and in every turn
// each memory belongs to one side. `places` is the order of rotation.
template <size_t n>
std::array<int, n> handed_round(const std::array<int, n>& places, int turn) {
  std::array<int, n> of_side{};
  for (size_t side = 0; side < n; ++side) of_side[side] = places[(side + static_cast<size_t>(turn)) % n];
  return of_side;
}

}  // namespace fk
