// KernelFloor: the time below which a call cannot come on this machine, with data where the call finds it.
//
// Reading, writing and arithmetic may all overlap (a copy in the nearest cache takes no longer than its writes alone),
// so the slowest of the three is the bound. Warm bytes are priced as if every cache held as much of them as it can. A
// cold call reads from main memory; what it writes need not come from there, so writes are priced as warm ones.
//
// The calls of one sample share their weights, so cold weights are cold for the first of them only. Two bounds hold for
// such a call, and the larger one counts: its part of what all of them need together, and what one needs alone with
// everything as near as can be.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/device_runtime.h"
#include "core/dtype.h"
#include "core/thread_pool.h"
#include "measure/memory_rates.h"
#include "ops/registry.h"

namespace fk {

struct Floor {
  double seconds = 0;  // the largest of these three
  double read_s = 0;
  double written_s = 0;
  double flops_s = 0;
  double read_bytes_per_s = 0;  // the rates behind the first two; 0 where nothing is read or written
  double written_bytes_per_s = 0;

  double bytes_s() const { return read_s > written_s ? read_s : written_s; }
};

// What one call of a sample needs, and what all of them need together.
struct SampleCost {
  SampleCost(const Cost& one) : call(one), together(one) {}  // NOLINT: one call is a sample
  // Each call on inputs of its own, all with the same weights.
  SampleCost(const OperatorInfo& op, const Fields& init, const Workload& workload, int calls_per_sample);

  Cost call, together;
  int calls = 1;
};

class KernelFloor {
 public:
  explicit KernelFloor(ThreadPool& pool, Device device = kCpu) : pool_(pool), device_(device), rates_(pool) {}

  // Of one call. Measures what it has not measured yet.
  Floor floor(const SampleCost& cost, DType dtype, bool cold);
  // Measures for a few milliseconds what decides that floor. A machine that is busy now gives rates that are too low, a
  // floor that is too high, and somebody would be accused for it; so the best rate of many moments of a run counts.
  void observe(const SampleCost& cost, DType dtype, bool cold);
  // The floor after measuring all of it once more, at length: before anybody is accused of an impossible time.
  Floor floor_again(const SampleCost& cost, DType dtype, bool cold);

 private:
  // Of the two bounds on a call's reads or writes, what the larger one is made of, and its seconds.
  struct Bound {
    std::vector<PricedBytes> parts;
    double seconds = 0;
  };
  Bound reads(const SampleCost& cost, bool cold);
  Bound writes(const SampleCost& cost);
  Bound larger(Traffic alone, double call_bytes, Traffic together, double bytes, int calls);
  double rate(const RateKey& key) { return device_ == kCpu ? rates_.rate(key) : device_rate(key); }
  std::vector<PricedBytes> parts(Traffic traffic, double bytes) const;
  void measure(const RateKey& key, double seconds);
  double device_rate(const RateKey& key);
  void measure_device();
  double peak(bool matrix_bf16);
  void measure_peak(bool matrix_bf16, double seconds);
  double arithmetic_s(const Cost& cost, DType dtype);

  ThreadPool& pool_;
  Device device_;
  MemoryRates rates_;
  std::map<RateKey, double> device_rates_;
  std::optional<DeviceSpeeds> device_speeds_;
  std::map<bool, double> peaks_;
};

}  // namespace fk
