#include "measure/memory_rates.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "measure/cache_evict.h"
#include "measure/first_core.h"
#include "measure/read_loops.h"
#include "measure/stream_kernels.h"
#include "measure/timer.h"

namespace fk {
namespace {

constexpr double kFirstTimeS = 1.5e-3;
constexpr size_t kFirstTurns = 3;  // measurements of each loop at first
// Bytes per thread in one measurement: 0.1 to 0.4 ms, so that waking the threads takes about a hundredth of it.
constexpr size_t kMovedByThread = size_t{4} << 20;
// Evicting takes as long as reading. Smaller pieces would read slower because of the latency of their first lines.
constexpr size_t kColdByThread = size_t{256} << 10;
constexpr size_t kLeastByThread = 4 * kStreamStep;
// Larger memory takes longer to bring back into a cache than the time between two launches.
constexpr size_t kBroughtBack = size_t{32} << 20;

}  // namespace

std::vector<PricedBytes> price(Traffic traffic, double bytes, size_t smallest, size_t largest) {
  std::vector<PricedBytes> parts;
  double from = 0;
  for (size_t size = smallest; from < bytes; size *= 2) {
    double to = size < largest ? 2 * static_cast<double>(size) : std::numeric_limits<double>::infinity();
    parts.push_back({{traffic, size}, std::min(bytes, to) - from});
    from = to;
  }
  return parts;
}

std::vector<PricedBytes> MemoryRates::parts(Traffic traffic, double bytes) {
  if (traffic != Traffic::kColdRead) return price(traffic, bytes, kSmallest, kLargest);
  if (!(bytes > 0)) return {};
  return {{{traffic, kSmallest}, bytes}};
}

double MemoryRates::least_s(Traffic traffic, double bytes) {
  double seconds = 0;
  std::vector<PricedBytes> all = parts(traffic, bytes);
  // The largest first: the other sizes then use parts of its memory.
  for (auto part = all.rbegin(); part != all.rend(); ++part) seconds += part->bytes / rate(part->rate);
  return seconds;
}

double MemoryRates::rate(const RateKey& key) {
  if (!rates_.contains(key)) measure(key, kFirstTimeS);
  double best = 0;
  for (auto at = rates_.find(key); at != rates_.end() && at->first.traffic == key.traffic; ++at)
    best = std::max(best, at->second);
  return best;
}

void MemoryRates::reserve(size_t size_bytes) {
  if (memory_.size() >= size_bytes) return;
  memory_ = Buffer(size_bytes);
  // Pages that were never written have no memory of their own; each thread writes the pages it will use.
  size_t threads = static_cast<size_t>(pool_.threads()), share = size_bytes / threads / kStreamStep * kStreamStep;
  pool_.on_all([&](int thread) {
    stream_write_kernels().front().run(memory_.data() + static_cast<size_t>(thread) * share, share);
  });
}

// One measurement with one of the loops. Small memory is read many times, large memory a piece at a time.
double MemoryRates::measure_once(const RateKey& key, size_t kernel, size_t& offset) {
  auto threads = static_cast<size_t>(pool_.threads());
  bool cold = key.traffic == Traffic::kColdRead;
  size_t share = cold ? kColdByThread : std::max(key.size_bytes / threads / kStreamStep * kStreamStep, kLeastByThread);
  size_t piece = std::min(share, kMovedByThread), passes = cold ? 1 : kMovedByThread / piece;
  offset = offset + piece <= share ? offset : 0;
  std::vector<ReadKernel> reads = read_loops(piece);
  std::vector<WriteKernel> writes = stream_write_kernels();
  if (cold) evict_from_caches(memory_.data(), share * threads);
  Stopwatch watch;
  pool_.on_all([&](int thread) {
    std::byte* at = memory_.data() + static_cast<size_t>(thread) * share + offset;
    for (size_t pass = 0; pass < passes; ++pass) {
      if (key.traffic == Traffic::kWrite)
        writes[kernel % writes.size()].run(at, piece);
      else
        reads[kernel % reads.size()].run(at, piece);
    }
  });
  double seconds = watch.elapsed_s();
  offset += piece;
  return static_cast<double>(piece * passes * threads) / seconds;
}

void MemoryRates::measure(const RateKey& key, double seconds) {
  OnFirstCore where_kernels_run;  // cores may differ in speed
  auto threads = static_cast<size_t>(pool_.threads());
  size_t size = key.traffic == Traffic::kColdRead ? kColdByThread * threads : key.size_bytes;
  reserve(std::max(size, kLeastByThread * threads));
  size_t offset = 0;
  double& known = rates_[key];
  size_t loops = key.traffic == Traffic::kWrite ? stream_write_kernels().size() : read_loops(kReadBlock).size();
  size_t turns = (known == 0 ? kFirstTurns : 1) * loops;
  Stopwatch all;
  // One pass over all of it first, so that it is in the caches if it fits.
  bool in_pieces = size / threads > kMovedByThread;
  if (in_pieces && (known == 0 || size <= kBroughtBack))
    for (size_t done = 0; done < size; done += kMovedByThread * threads) measure_once(key, 0, offset);
  offset = 0;
  for (size_t turn = 0; turn < turns || all.elapsed_s() < seconds; ++turn)
    known = std::max(known, measure_once(key, turn % loops, offset));
}

}  // namespace fk
