#include "core/pieces.h"

namespace fk {
namespace {

// Pieces::chosen and Pieces::scaled of a whole piece. What is the same for all its elements is computed once, which
// takes two fifths less time if they are scaled. tests/core/pieces_test.cpp compares both.
template <bool kScales, class U>
void copy_piece(U* __restrict out, const U* __restrict one, const U* __restrict two, const Pieces& how,
                const Pieces::Piece& p) {
  const auto sign = static_cast<U>(U{1} << (how.mantissa_bits + how.exponent_bits));
  const auto ones = static_cast<U>((U{1} << how.exponent_bits) - 1);
  // Absolute values below `least` become zero, those from `most` on stay.
  const auto least = static_cast<U>(static_cast<U>(p.exponent < 0 ? 1 - p.exponent : 1) << how.mantissa_bits);
  const auto most = static_cast<U>(static_cast<U>(ones - (p.exponent > 0 ? p.exponent : 0)) << how.mantissa_bits);
  const auto more = static_cast<U>(static_cast<U>(p.exponent) << how.mantissa_bits);
  const int64_t n = p.end - p.begin;
  const uint32_t choice = p.choice;
  uint32_t h = static_cast<uint32_t>(p.begin) * choice;
  for (int64_t i = 0; i < n; ++i, h += choice) {
    const auto second = static_cast<U>(static_cast<int32_t>(h) >> 31);
    auto bits = static_cast<U>(one[i] ^ ((one[i] ^ two[i]) & second));
    if constexpr (kScales) {
      const auto absolute = static_cast<U>(bits & static_cast<U>(~sign));
      const U moved = absolute >= most ? bits : static_cast<U>(bits + more);
      bits = absolute < least ? static_cast<U>(bits & sign) : moved;
    }
    out[i] = bits;
  }
}

}  // namespace

void put_together(void* to, const void* set, const Pieces& pieces) {
  with_element_of(pieces.element_bytes, [&]<class U>(U) {
    const Pieces how = pieces;
    const auto* from = static_cast<const U*>(set);
    for (int64_t number = 0; number < how.count(); ++number) {
      const Pieces::Piece p = how.piece(number);
      const U *one = from + (p.begin + p.from), *two = from + (p.begin + p.other);
      U* out = static_cast<U*>(to) + p.begin;
      if (how.scales(p))
        copy_piece<true>(out, one, two, how, p);
      else
        copy_piece<false>(out, one, two, how, p);
    }
  });
}

}  // namespace fk
