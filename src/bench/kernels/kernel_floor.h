// KernelFloor: the minimum time of a call on this machine, with its data in the caches or in memory.
//
// Reading, writing and arithmetic may all overlap (a copy in the nearest cache takes no longer than its writes alone),
// so the slowest of the three is the bound. Warm bytes count as if every cache held as many of them as possible. A cold
// call reads from main memory; its writes may stay in caches, so they count as warm.
//
// The calls of one sample share their weights, so cold weights are cold for the first of them only. Two bounds hold for
// such a call, and the larger one is used: its share of the time of all calls together, and the time of one call with
// all data in the nearest caches.
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
  double read_bytes_per_s = 0;  // the rates for read_s and write_s; 0 if nothing is read or written
  double written_bytes_per_s = 0;

  double bytes_s() const { return read_s > written_s ? read_s : written_s; }
};

// The cost of one call of a sample, and of all of them together.
struct SampleCost {
  SampleCost(const Cost& one) : call(one), together(one) {}  // NOLINT: one call is a sample
  // Each call has its own inputs, all have the same weights.
  SampleCost(const OperatorInfo& op, const Fields& init, const Workload& workload, int calls_per_sample);

  Cost call, together;
  int calls = 1;
};

class KernelFloor {
 public:
  explicit KernelFloor(ThreadPool& pool, Device device = kCpu) : pool_(pool), device_(device), rates_(pool) {}

  // The floor of one call. Measures missing rates first.
  Floor floor(const SampleCost& cost, DType dtype, bool cold);
  // Measures for a few milliseconds the rates that decide that floor. On a busy machine rates are too low and the floor
  // is too high, so the best of many measurements during a run is used.
  void observe(const SampleCost& cost, DType dtype, bool cold);
  // The floor after a second, longer measurement: before a time is called impossible.
  Floor floor_again(const SampleCost& cost, DType dtype, bool cold);

 private:
  // The larger of the two bounds on a call's reads or writes: its parts and its seconds.
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
