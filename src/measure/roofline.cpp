// Bytes over bandwidth, operations over peak.
#include "measure/roofline.h"

#include <algorithm>

#include "core/error.h"

namespace fk {

double peak_flops(const MachineProbe& probe, DType dtype) {
  return (dtype == DType::kBF16 ? probe.bf16_tflops.best : probe.f32_tflops.best) * 1e12;
}

// 10^9 bytes a second is one byte a nanosecond.
double memory_floor_ns(double bytes, const MachineProbe& probe) { return bytes / probe.read_gbps.best; }

double compute_floor_ns(double flops, DType dtype, const MachineProbe& probe) {
  return flops / peak_flops(probe, dtype) * 1e9;
}

double floor_ns(double bytes, double flops, DType dtype, const MachineProbe& probe) {
  return std::max(memory_floor_ns(bytes, probe), compute_floor_ns(flops, dtype, probe));
}

double floor_share(double floor_time_ns, double time_ns) {
  if (!(time_ns > 0)) throw Error("a time of {} ns cannot be compared with its floor; measure a longer piece", time_ns);
  return floor_time_ns / time_ns;
}

}  // namespace fk
