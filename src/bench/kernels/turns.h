// Who has which place when places are handed round.
#pragma once

#include <array>
#include <cstddef>

namespace fk {

// Of each of n sides, the place it has in that turn: in n turns in a row each side has had every place once, and in
// every turn each place belongs to one side. `places` is the order they are handed round in.
template <size_t n>
std::array<int, n> handed_round(const std::array<int, n>& places, int turn) {
  std::array<int, n> of_side{};
  for (size_t side = 0; side < n; ++side) of_side[side] = places[(side + static_cast<size_t>(turn)) % n];
  return of_side;
}

}  // namespace fk
