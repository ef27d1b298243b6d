// Philox4x32-10, a counter-based generator: any element of any stream can be computed alone, in any order, by any
// thread.
//
// tools/golden/philox.py computes the same streams; tests/core/rng_test.cpp checks both against the published test
// vectors.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace fk {

using PhiloxBlock = std::array<uint32_t, 4>;

// The 128 bits at `counter` of the stream `key`.
constexpr PhiloxBlock philox4x32(PhiloxBlock counter, uint64_t key) {
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t{0xD2511F53u} * counter[0];
    uint64_t p1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return counter;
}

// The key of a named stream: FNV-1a of the name, started from the seed. Equal names under equal seeds are equal
// streams.
constexpr uint64_t stream_key(uint64_t seed, std::string_view name) {
  uint64_t h = 0xcbf29ce484222325u ^ (seed * 0x9E3779B97F4A7C15u);
  for (char c : name) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return h;
}

// A stream of numbers addressed by index.
class Stream {
 public:
  constexpr Stream(uint64_t seed, std::string_view name) : key_(stream_key(seed, name)) {}
  constexpr explicit Stream(uint64_t key) : key_(key) {}

  constexpr uint64_t key() const { return key_; }
  constexpr PhiloxBlock block(uint64_t i) const {
    return philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0}, key_);
  }
  // The i-th 32-bit number: word i % 4 of block i / 4.
  constexpr uint32_t u32(uint64_t i) const { return block(i / 4)[i % 4]; }
  // Uniform in (0, 1), never 0 and never 1.
  constexpr double uniform(uint64_t i) const { return (static_cast<double>(u32(i)) + 0.5) * 0x1p-32; }
  // Uniform over 0 .. n-1, from 64 bits, so that the bias is below 2^-32 for any n a tensor can have.
  constexpr uint64_t below(uint64_t i, uint64_t n) const {
    PhiloxBlock b = block(i);
    auto wide = static_cast<__uint128_t>((uint64_t{b[1]} << 32) | b[0]) * n;
    return static_cast<uint64_t>(wide >> 64);
  }
  double normal(uint64_t i) const;

 private:
  uint64_t key_;
};

}  // namespace fk
