// Pieces: builds a tensor from random pieces of a larger one, called its set: numbers of the same distribution,
// different content in every row. The choice depends only on a key, so that the CPU and a device build the same tensor.
//
// A few elements of the tensor must not reveal the others. So the boundaries of pieces are random. The elements of a
// piece come from two places of the set, in a random pattern, so that a candidate that remembers the set still has to
// read every element. And each piece is scaled by its own power of two.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/rng.h"

namespace fk {

struct Pieces {
  int64_t elements = 0;  // of the tensor
  int64_t element_bytes = 1;
  uint64_t key = 0;
  int64_t set_elements = 0;  // at least as many as the tensor has
  // Floats are multiplied by 2^e, with an e of every piece from least_exponent to most_exponent. How a float is stored:
  // without bits of an exponent nothing is multiplied.
  int mantissa_bits = 0, exponent_bits = 0;
  int least_exponent = 0, most_exponent = 0;

  struct Piece {
    int64_t begin = 0, end = 0;   // elements of the tensor
    int64_t from = 0, other = 0;  // element i is element i + from of the set, or i + other
    uint32_t choice = 0;          // the second of them where the highest bit of i * choice is 1
    int exponent = 0;
  };

  // Elements of a piece: few enough that a row of a model consists of several, and small tensors as well. The first and
  // the last one may be shorter.
  constexpr int64_t length() const {
    constexpr int64_t kLargest = 512, kPieces = 8;
    int64_t share = elements / kPieces;
    share = share < 1 ? 1 : share > kLargest ? kLargest : share;
    return share - part(static_cast<uint32_t>(key), share / 2 + 1);
  }
  // How much shorter the first piece is.
  constexpr int64_t lacking() const { return part(static_cast<uint32_t>(key >> 32), length()); }
  constexpr int64_t count() const { return (elements + lacking() + length() - 1) / length(); }

  constexpr Piece piece(int64_t number) const {
    int64_t size = length(), first = number * size - lacking();
    auto places = static_cast<uint64_t>(set_elements - size + 1);
    auto at = static_cast<uint64_t>(2 * number);
    Stream random(key);
    PhiloxBlock more = random.block(at + 1);
    auto wide = static_cast<__uint128_t>((uint64_t{more[1]} << 32) | more[0]) * places;
    Piece p;
    p.begin = first < 0 ? 0 : first;
    p.end = first + size < elements ? first + size : elements;
    p.from = static_cast<int64_t>(random.below(at, places)) - first;
    p.other = static_cast<int64_t>(static_cast<uint64_t>(wide >> 64)) - first;
    // From a quarter of all numbers to three quarters of them, so that no three neighbours have the same bit.
    p.choice = (1u << 30) + (more[2] >> 1);
    p.exponent = least_exponent + static_cast<int>(part(more[3], most_exponent - least_exponent + 1));
    return p;
  }

  // The element of the set that element i of the piece copies. Branch-free, so that loops over a piece are vectorised.
  // U: an unsigned integer of element_bytes.
  template <class U>
  constexpr U chosen(U one, U two, const Piece& p, int64_t i) const {
    uint32_t h = static_cast<uint32_t>(i) * p.choice;
    return static_cast<U>(one ^ ((one ^ two) & static_cast<U>(U{0} - static_cast<U>(h >> 31))));
  }
  // A float times 2^p.exponent. What would be too small for a normal number is zero; what is not finite, or would not
  // be, stays.
  template <class U>
  constexpr U scaled(U bits, const Piece& p) const {
    const auto ones = static_cast<U>((U{1} << exponent_bits) - 1);
    const auto least = static_cast<U>(p.exponent < 0 ? -p.exponent : 0);
    const auto most = static_cast<U>(ones - (p.exponent > 0 ? p.exponent : 0));
    const auto e = static_cast<U>((bits >> mantissa_bits) & ones);
    const auto sign = static_cast<U>(bits & static_cast<U>(U{1} << (mantissa_bits + exponent_bits)));
    const auto moved = static_cast<U>(bits + static_cast<U>(static_cast<U>(p.exponent) << mantissa_bits));
    return e <= least ? sign : e >= most ? bits : moved;
  }
  constexpr bool scales(const Piece& p) const { return exponent_bits > 0 && p.exponent != 0; }

 private:
  // A number below n from 32 random bits.
  static constexpr int64_t part(uint32_t random, int64_t n) {
    return static_cast<int64_t>((uint64_t{random} * static_cast<uint64_t>(n)) >> 32);
  }
};

// How a dtype is stored, where it is one that can be scaled.
constexpr void store_float_format(Pieces& pieces, DType dtype) {
  if (dtype == DType::kF32) pieces.mantissa_bits = 23, pieces.exponent_bits = 8;
  if (dtype == DType::kBF16) pieces.mantissa_bits = 7, pieces.exponent_bits = 8;
  if (dtype == DType::kF16) pieces.mantissa_bits = 10, pieces.exponent_bits = 5;
}

// Calls body(U{}) with the unsigned integer of a size.
template <class Body>
void with_element_of(int64_t bytes, const Body& body) {
  if (bytes == 1) return body(uint8_t{});
  if (bytes == 2) return body(uint16_t{});
  if (bytes == 4) return body(uint32_t{});
  return body(uint64_t{});
}

// Builds the tensor at `to`.
void put_together(void* to, const void* set, const Pieces& pieces);

}  // namespace fk
