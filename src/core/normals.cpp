#include "core/normals.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace fk {
namespace {

// Horner's scheme, written out: GCC makes no vector code of a loop that contains another.
double polynomial(double, double last) { return last; }
template <class... More>
double polynomial(double z, double first, More... more) {
  return first + z * polynomial(z, more...);
}

// log(u) for 0 < u < 1, without branches and calls, so that a loop over it becomes vector code; within 2 ulp.
[[gnu::always_inline]] inline double log_of(double u) {
  // u = 2^exponent m, sqrt(1/2) <= m < sqrt(2)
  constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcd;  // the bits of sqrt(1/2)
  const uint64_t bits = std::bit_cast<uint64_t>(u);
  const int64_t exponent = static_cast<int64_t>(bits - kRootHalf) >> 52;
  const double m = std::bit_cast<double>(bits - (static_cast<uint64_t>(exponent) << 52));
  // log(m) = 2 atanh(s); |s| < 0.172, so that s^22 / 23 is below 2^-60.
  const double s = (m - 1) / (m + 1), z = s * s;
  const double sum =
      polynomial(z, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21);
  return static_cast<double>(exponent) * std::numbers::ln2 + (2 * s + 2 * s * (z * sum));
}

// cos(2 pi v) = -sin(2 pi t) with t = 1/4 - |v - 1/2|, which is exact for multiples of 2^-33.
[[gnu::always_inline]] inline double cos_of_turns(double v) {
  const double t = 0.25 - std::abs(v - 0.5), x = 2 * std::numbers::pi * t, z = x * x;
  // Taylor's series to x^23; the next term is below 2^-65 for |x| <= pi / 2.
  const double sum = polynomial(
      z, 1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000,
      1.0 / 355687428096000, -1.0 / 121645100408832000, 1.0 / 51090942171709440000.0, -1.0 / 25852016738884976640000.0);
  return -x * sum;
}

double unit(uint32_t bits) { return (static_cast<double>(bits) + 0.5) * 0x1p-32; }

[[gnu::always_inline]] inline double box_muller(double u, double v) {
  return std::sqrt(-2.0 * log_of(u)) * cos_of_turns(v);
}

constexpr size_t kPiece = 64;

struct FirstWords {
  void compute(uint64_t first, uint64_t key);
  uint32_t c0[kPiece], c1[kPiece], c2[kPiece], c3[kPiece];
};

// philox4x32 (core/rng.h) of kPiece indices, round by round, so that a round becomes vector code;
// tests/core/rng_test.cpp compares them. The first two words of each block are left in c0 and c1.
void FirstWords::compute(uint64_t first, uint64_t key) {
  for (size_t i = 0; i < kPiece; ++i) {
    c0[i] = static_cast<uint32_t>(first + i);
    c1[i] = static_cast<uint32_t>((first + i) >> 32);
    c2[i] = c3[i] = 0;
  }
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
    for (size_t i = 0; i < kPiece; ++i) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c0[i], p1 = uint64_t{0xCD9E8D57u} * c2[i];
      c0[i] = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      c1[i] = static_cast<uint32_t>(p1);
      c2[i] = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c3[i] = static_cast<uint32_t>(p0);
    }
}

}  // namespace

void fill_normals(const Stream& stream, uint64_t first, std::span<double> out) {
  FirstWords words;
  double u[kPiece], v[kPiece];
  for (size_t at = 0; at < out.size(); at += kPiece) {
    words.compute(first + at, stream.key());
    for (size_t i = 0; i < kPiece; ++i) {
      u[i] = unit(words.c0[i]);
      v[i] = unit(words.c1[i]);
    }
    const size_t n = std::min(kPiece, out.size() - at);
    for (size_t i = 0; i < n; ++i) out[at + i] = box_muller(u[i], v[i]);
  }
}

// Box-Muller, using one number of the pair: each index needs exactly one block.
double Stream::normal(uint64_t i) const {
  const PhiloxBlock b = block(i);
  return box_muller(unit(b[0]), unit(b[1]));
}

}  // namespace fk
