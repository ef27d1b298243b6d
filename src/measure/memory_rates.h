// MemoryRates: how fast this machine reads and writes memory of a size, and reads what was just taken out of its
// caches.
//
// A rate is the best of many short measurements: whatever disturbs one makes it slower, so rates only ever rise.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "core/memory.h"
#include "core/thread_pool.h"

namespace fk {

enum class Traffic : uint8_t {
  kRead,      // of memory that was read before, from whichever cache holds that much
  kWrite,     // likewise
  kColdRead,  // of memory that was evicted from the caches; the same for all sizes
};

// One rate: what is done, and to how much memory.
struct RateKey {
  Traffic traffic = Traffic::kRead;
  size_t size_bytes = 0;
  friend auto operator<=>(const RateKey&, const RateKey&) = default;
};

// A part of a piece of work, and the rate at which it is priced.
struct PricedBytes {
  RateKey rate;
  double bytes = 0;
};

// Prices bytes so that no placement in caches makes them cheaper. The first of them may lie in the nearest cache, the
// next in the next one, wherever the sizes of the caches lie: so those between two measured sizes are priced at the
// rate of the smaller one. Sizes are powers of two.
std::vector<PricedBytes> price(Traffic traffic, double bytes, size_t smallest, size_t largest);

class MemoryRates {
 public:
  static constexpr size_t kSmallest = size_t{16} << 10;  // fits every nearest cache
  static constexpr size_t kLargest = size_t{256} << 20;  // what lies beyond is main memory

  // On all threads of the pool, each with its share of the memory.
  explicit MemoryRates(ThreadPool& pool) : pool_(pool) {}

  static std::vector<PricedBytes> parts(Traffic traffic, double bytes);
  // The least time those bytes take. Measures what it has not measured yet: a few milliseconds for a rate.
  double least_s(Traffic traffic, double bytes);
  // Bytes a second. A larger memory is never faster, so a smaller one counts as at least as fast as it.
  double rate(const RateKey& key);
  // Measures once more, for so long.
  void measure(const RateKey& key, double seconds);

 private:
  double measure_once(const RateKey& key, size_t kernel, size_t& offset);
  void reserve(size_t size_bytes);

  ThreadPool& pool_;
  Buffer memory_;
  std::map<RateKey, double> rates_;
};

}  // namespace fk
