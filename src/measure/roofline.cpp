#include "measure/roofline.h"

#include <algorithm>

#include "core/error.h"

namespace fk {
namespace {

Speeds speeds_of(const MachineProbe& probe, DType dtype, double Rate::*which) {
  double matrix = probe.bf16_tflops.*which;
  double compute = dtype == DType::kBF16 ? matrix : std::max(probe.f32_tflops.*which, matrix / kBf16ProductsOfF32);
  return {probe.read_gbps.*which * 1e9, compute * 1e12};
}

}  // namespace

Speeds best_speeds(const MachineProbe& probe, DType dtype) { return speeds_of(probe, dtype, &Rate::best); }
Speeds median_speeds(const MachineProbe& probe, DType dtype) { return speeds_of(probe, dtype, &Rate::median); }

double floor_s(double bytes, double flops, const Speeds& speeds) {
  return std::max(bytes / speeds.read, flops / speeds.compute);
}

double floor_share(double floor, double time) {
  if (!(time > 0)) throw Error("a time of {} cannot be compared with its floor; measure a longer piece", time);
  return floor / time;
}

}  // namespace fk
