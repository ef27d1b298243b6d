// The integers to which blocks add floats, each with the units of its scale. One integer cannot hold all floats, so
// terms that are too large for the usual sum are added to another one with larger units, and counted: the other sums
// are read only where the count is not zero. No device code, so that a test on the CPU can check it.
#pragma once

namespace fk::cuda {

// A term belongs to the first scale whose limit is larger than it: 2^21, 2^52, 2^83, 2^114, 2^145; every float
// is below the last one. Limits and units grow by the same factor.
inline constexpr int kTermScales = 5;
inline constexpr int kMostAdders = 256;  // terms of one sum

constexpr float power_of_two(int exponent) {
  float power = 1;
  for (; exponent > 0; --exponent) power *= 2;
  for (; exponent < 0; ++exponent) power /= 2;
  return power;
}

// Not for the last scale, whose limit is larger than any float.
constexpr float term_limit(int scale) { return power_of_two(21 + 31 * scale); }

// A term times this is added. In the first scale the error of that is far below that of an element; in the others there
// is none, since a term of these scales is at least the limit of the scale before, so that all of its 24 bits are whole
// units. kMostAdders terms fit.
constexpr float terms_per_one(int scale) { return power_of_two(34 - 31 * scale); }

inline constexpr float kFirstLimit = term_limit(0), kFirstUnits = terms_per_one(0);

// `size`: absolute value of a term, finite.
constexpr int term_scale(float size) {
  int scale = 0;
  while (scale + 1 < kTermScales && size >= term_limit(scale)) ++scale;
  return scale;
}

// Counted in one word beside the sums: in the low 32 bits terms that do not belong to the first scale, in the high 32
// bits terms that are infinite or NaN. There are fewer than 2^32 of each.
inline constexpr unsigned long long kLargeTerm = 1, kNoTerm = 1ull << 32;

// Copies of the sums: blocks that add to the same memory wait for each other.
inline constexpr int kTermCopies = 4;

// Where the sums of `count` numbers lie: [kTermCopies, count + 1], the last of each copy a count of terms, then
// [kTermScales - 1, count] of large terms.
struct TermPlaces {
  int count;

  constexpr int of_copy(int copy) const { return copy * (count + 1); }
  constexpr int of_scale(int scale) const { return of_copy(kTermCopies) + (scale - 1) * count; }  // not of the first
  constexpr int all() const { return of_scale(kTermScales); }
};

}  // namespace fk::cuda
