// MemoryRates: how fast this machine reads and writes memory of a given size, and reads memory that was evicted from
// its caches.
//
// A rate is the best of many short measurements: disturbances only make a measurement slower, so rates only ever rise.
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
  kRead,      // of memory that was read before, from whichever cache can hold it
  kWrite,     // the same for writes
  kColdRead,  // of memory that was evicted from the caches; the same for all sizes
};

// One rate: the kind of access and the size of the memory.
struct RateKey {
  Traffic traffic = Traffic::kRead;
  size_t size_bytes = 0;
  friend auto operator<=>(const RateKey&, const RateKey&) = default;
};

// A part of the bytes of a call, and the rate that gives its time.
struct PricedBytes {
  RateKey rate;
  double bytes = 0;
};

// Splits bytes into parts with a rate each, so that no placement in caches could be faster. The first bytes may be in
// the nearest cache, the next in the next one, and the sizes of the caches are unknown: so bytes between two measured
// sizes get the rate of the smaller size. Sizes are powers of two.
std::vector<PricedBytes> price(Traffic traffic, double bytes, size_t smallest, size_t largest);

class MemoryRates {
 public:
  static constexpr size_t kSmallest = size_t{16} << 10;  // fits into the first-level cache of every CPU
  static constexpr size_t kLargest = size_t{256} << 20;  // anything larger is in main memory

  // On all threads of the pool, each with its share of the memory.
  explicit MemoryRates(ThreadPool& pool) : pool_(pool) {}

  static std::vector<PricedBytes> parts(Traffic traffic, double bytes);
  // The least time for those bytes. Measures missing rates first: a few milliseconds each.
  double least_s(Traffic traffic, double bytes);
  // Bytes per second. Larger memory is never faster, so a smaller size counts as at least as fast as a larger one.
  double rate(const RateKey& key);
  // Measures again, for this long.
  void measure(const RateKey& key, double seconds);

 private:
  double measure_once(const RateKey& key, size_t kernel, size_t& offset);
  void reserve(size_t size_bytes);

  ThreadPool& pool_;
  Buffer memory_;
  std::map<RateKey, double> rates_;
};

}  // namespace fk
