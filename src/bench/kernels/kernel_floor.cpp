#include "bench/kernels/kernel_floor.h"

#include <algorithm>

#include "core/device_judging.h"
#include "measure/first_core.h"
#include "measure/probe_kernels.h"
#include "measure/roofline.h"
#include "measure/timer.h"

namespace fk {
namespace {

constexpr double kGlanceS = 1e-3;   // one rate, between two launches
constexpr double kLengthS = 20e-3;  // one rate, before an IMPOSSIBLE_TIME
constexpr size_t kGlances = 2;      // number of rates measured between two launches

// The range of sizes that are measured on a GPU: from its caches to its main memory.
constexpr size_t kSmallestOnDevice = size_t{1} << 20, kLargestOnDevice = size_t{1} << 30;
constexpr size_t kTellingOnDevice = size_t{16} << 20;  // enough for all its threads

bool is_half(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

}  // namespace

SampleCost::SampleCost(const OperatorInfo& op, const Fields& init, const Workload& workload, int calls_per_sample)
    : call(op.cost(init, workload)), calls(std::max(calls_per_sample, 1)) {
  together = op.cost(init, workload.repeated(calls));
}

std::vector<PricedBytes> KernelFloor::parts(Traffic traffic, double bytes) const {
  if (device_ == kCpu) return MemoryRates::parts(traffic, bytes);
  if (traffic != Traffic::kColdRead) return price(traffic, bytes, kSmallestOnDevice, kLargestOnDevice);
  if (!(bytes > 0)) return {};
  return {{{traffic, kLargestOnDevice}, bytes}};
}

KernelFloor::Bound KernelFloor::larger(Traffic alone, double call_bytes, Traffic together, double bytes, int calls) {
  auto bound = [&](Traffic traffic, double size, int share) {
    Bound b{parts(traffic, size)};
    // The largest size first: its memory is then reused for all others.
    for (auto part = b.parts.rbegin(); part != b.parts.rend(); ++part) b.seconds += part->bytes / rate(part->rate);
    b.seconds /= share;
    return b;
  };
  Bound one = bound(alone, call_bytes, 1), all = bound(together, bytes, calls);
  return one.seconds > all.seconds ? one : all;
}

KernelFloor::Bound KernelFloor::reads(const SampleCost& cost, bool cold) {
  return larger(Traffic::kRead, cost.call.read_bytes, cold ? Traffic::kColdRead : Traffic::kRead,
                cost.together.read_bytes, cost.calls);
}

KernelFloor::Bound KernelFloor::writes(const SampleCost& cost) {
  return larger(Traffic::kWrite, cost.call.written_bytes, Traffic::kWrite, cost.together.written_bytes, cost.calls);
}

void KernelFloor::measure(const RateKey& key, double seconds) {
  if (device_ == kCpu) return rates_.measure(key, seconds);
  DeviceJudging& gpu = device_runtime(device_).judging();
  double& known = device_rates_[key];
  // For a GPU's main memory cold and warm are the same; it is measured with the other sizes.
  if (key.traffic == Traffic::kWrite)
    known = std::max(known, gpu.write_speed(key.size_bytes));
  else
    known = std::max(known, gpu.read_speed(key.size_bytes));
}

double KernelFloor::device_rate(const RateKey& key) {
  // A small size keeps too few threads busy to measure its speed, and is not slower than a larger one.
  for (RateKey larger = key; larger.size_bytes <= kTellingOnDevice; larger.size_bytes *= 2)
    if (!device_rates_.contains(larger)) measure(larger, 0);
  if (!device_rates_.contains(key)) measure(key, 0);
  double best = 0;
  for (auto at = device_rates_.find(key); at != device_rates_.end() && at->first.traffic == key.traffic; ++at)
    best = std::max(best, at->second);
  if (!device_speeds_) measure_device();
  double memory = key.traffic == Traffic::kWrite ? device_speeds_->write_gbps : device_speeds_->read_gbps;
  return std::max(best, memory * 1e9);
}

void KernelFloor::measure_device() {
  DeviceSpeeds now = device_runtime(device_).measure(), before = device_speeds_.value_or(now);
  now.read_gbps = std::max(now.read_gbps, before.read_gbps);
  now.write_gbps = std::max(now.write_gbps, before.write_gbps);
  now.bf16_tflops = std::max(now.bf16_tflops, before.bf16_tflops);
  now.f32_tflops = std::max(now.f32_tflops, before.f32_tflops);
  device_speeds_ = now;
}

void KernelFloor::measure_peak(bool matrix_bf16, double seconds) {
  OnFirstCore where_kernels_run;  // cores may differ in speed
  double& known = peaks_[matrix_bf16];
  PeakKernel kernel = (matrix_bf16 ? bf16_peak_kernels() : f32_peak_kernels()).front();
  Stopwatch all;
  for (int i = 0; i < 2 || all.elapsed_s() < seconds; ++i) {
    Stopwatch watch;
    pool_.on_all([&](int) { kernel.run(); });
    known = std::max(known, kernel.flops * pool_.threads() / watch.elapsed_s());
  }
}

double KernelFloor::peak(bool matrix_bf16) {
  if (!peaks_.contains(matrix_bf16)) measure_peak(matrix_bf16, 2 * kGlanceS);
  return peaks_[matrix_bf16];
}

double KernelFloor::arithmetic_s(const Cost& cost, DType dtype) {
  if (!(cost.matrix_flops > 0) && !(cost.vector_flops > 0)) return 0;
  double f32 = 0, bf16 = 0, products_of_f32 = kBf16ProductsOfF32;
  if (device_ == kCpu) {
    f32 = peak(false);
    bf16 = cost.matrix_flops > 0 ? peak(true) : 0;
  } else {
    if (!device_speeds_) measure_device();
    f32 = device_speeds_->f32_tflops * 1e12;
    bf16 = device_speeds_->bf16_tflops * 1e12;
    products_of_f32 = 4;  // of three bf16 or tf32 parts
  }
  double vector = (is_half(dtype) ? 2 : 1) * f32;  // a vector holds twice as many 16-bit numbers
  double matrix = is_half(dtype) ? bf16 : std::max(f32, bf16 / products_of_f32);
  if (dtype == DType::kF16) matrix = std::max(matrix, vector);
  matrix *= cost.matrix_speedup;
  return std::max(cost.matrix_flops > 0 ? cost.matrix_flops / matrix : 0, cost.vector_flops / vector);
}

Floor KernelFloor::floor(const SampleCost& cost, DType dtype, bool cold) {
  Floor floor;
  floor.read_s = reads(cost, cold).seconds;
  floor.written_s = writes(cost).seconds;
  floor.flops_s = arithmetic_s(cost.call, dtype);
  floor.seconds = std::max(floor.bytes_s(), floor.flops_s);
  if (floor.read_s > 0) floor.read_bytes_per_s = cost.call.read_bytes / floor.read_s;
  if (floor.written_s > 0) floor.written_bytes_per_s = cost.call.written_bytes / floor.written_s;
  return floor;
}

void KernelFloor::observe(const SampleCost& cost, DType dtype, bool cold) {
  Bound read = reads(cost, cold), written = writes(cost);
  Bound& longer = read.seconds >= written.seconds ? read : written;
  if (arithmetic_s(cost.call, dtype) >= longer.seconds) {
    if (device_ == kCpu) measure_peak(cost.call.matrix_flops > 0 && is_half(dtype), kGlanceS);
    return;
  }
  auto takes_longer = [&](const PricedBytes& a, const PricedBytes& b) {
    return a.bytes / rate(a.rate) > b.bytes / rate(b.rate);
  };
  std::sort(longer.parts.begin(), longer.parts.end(), takes_longer);
  for (size_t i = 0; i < std::min(kGlances, longer.parts.size()); ++i) measure(longer.parts[i].rate, kGlanceS);
}

Floor KernelFloor::floor_again(const SampleCost& cost, DType dtype, bool cold) {
  for (const Bound& bound : {reads(cost, cold), writes(cost)})
    for (const PricedBytes& part : bound.parts) measure(part.rate, kLengthS);
  if (device_ != kCpu) {
    measure_device();
  } else if (cost.call.matrix_flops + cost.call.vector_flops > 0) {
    measure_peak(false, kLengthS);
    if (cost.call.matrix_flops > 0) measure_peak(true, kLengthS);
  }
  return floor(cost, dtype, cold);
}

}  // namespace fk
