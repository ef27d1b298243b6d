// Pieces: a tensor put together from pieces of another, chosen at random: the same numbers, other content in every row.
// What is chosen follows from a key, so that the CPU and a device come to the same tensor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/rng.h"

namespace fk {

struct Pieces {
  int64_t elements = 0;  // of either tensor
  int64_t element_bytes = 1;
  uint64_t key = 0;

  // Elements of a piece: at most a number that divides no usual row length, so that rows differ in more than their
  // order, and few enough that small tensors consist of several. The last piece may be shorter.
  constexpr int64_t length() const {
    constexpr int64_t kLargest = 1000, kPieces = 8;
    int64_t share = elements / kPieces;
    return share < 1 ? 1 : share > kLargest ? kLargest : share;
  }
  constexpr int64_t count() const { return (elements + length() - 1) / length(); }
  // The element of the other tensor that a piece begins with; all of its length lies behind it.
  constexpr int64_t start(int64_t piece) const {
    return static_cast<int64_t>(
        Stream(key).below(static_cast<uint64_t>(piece), static_cast<uint64_t>(elements - length() + 1)));
  }
};

inline void put_together(void* to, const void* from, const Pieces& pieces) {
  for (int64_t piece = 0; piece < pieces.count(); ++piece) {
    int64_t first = piece * pieces.length(), length = std::min(pieces.length(), pieces.elements - first);
    std::memcpy(static_cast<std::byte*>(to) + first * pieces.element_bytes,
                static_cast<const std::byte*>(from) + pieces.start(piece) * pieces.element_bytes,
                static_cast<size_t>(length * pieces.element_bytes));
  }
}

}  // namespace fk
