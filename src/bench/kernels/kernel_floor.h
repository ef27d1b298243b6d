// KernelFloor: the time below which a call cannot come on this machine, with data where the call finds it.
//
// A kernel whose tensors fit a cache may beat main memory, so bytes are priced at the speed this machine (or its GPU)
// reads memory of that size; cold calls, and those larger than every cache, at the speed of main memory.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "core/device_runtime.h"
#include "core/dtype.h"
#include "core/memory.h"
#include "core/thread_pool.h"
#include "ops/workload.h"

namespace fk {

struct Floor {
  double seconds = 0;
  double bytes_s = 0;  // of which the larger one counts
  double flops_s = 0;
  double read_bytes_per_s = 0;
};

class KernelFloor {
 public:
  explicit KernelFloor(ThreadPool& pool, Device device = kCpu) : pool_(pool), device_(device) {}

  // Measures what it has not measured yet; a few hundredths of a second for each new size.
  Floor floor(const Cost& cost, DType dtype, bool cold);
  // The same after measuring once more, ten times as long: before anybody is accused of an impossible time. Speeds only
  // ever rise, since whatever disturbs a measurement makes it slower.
  Floor floor_again(const Cost& cost, DType dtype, bool cold);

 private:
  Floor compute(const Cost& cost, DType dtype, bool cold, double seconds);
  Floor compute_on_device(const Cost& cost, DType dtype, bool cold, bool again);
  double read_speed(size_t size_bytes, double seconds);
  double peak(bool matrix_bf16, double seconds);

  ThreadPool& pool_;
  Device device_;
  std::optional<DeviceSpeeds> device_speeds_;
  std::map<size_t, double> read_speeds_;  // by size, powers of two
  std::map<bool, double> peaks_;
  Buffer memory_;
};

}  // namespace fk
