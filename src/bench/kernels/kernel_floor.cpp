#include "bench/kernels/kernel_floor.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/device_judging.h"
#include "measure/probe_kernels.h"
#include "measure/timer.h"

namespace fk {
namespace {
constexpr size_t kMainMemory = size_t{512} << 20;  // larger than the caches a few cores have to themselves
constexpr double kMeasureFor = 0.03;
}  // namespace

double KernelFloor::read_speed(size_t size_bytes, double seconds) {
  auto threads = static_cast<size_t>(pool_.threads());
  size_t least = threads * kReadBlock;
  size_t size = std::clamp(std::bit_ceil(size_bytes), std::bit_ceil(least), kMainMemory);
  double& known = read_speeds_[size];
  if (known > 0 && seconds <= kMeasureFor) return known;
  if (memory_.size() < size) {
    memory_ = Buffer(size);
    std::memset(memory_.data(), 1, memory_.size());  // pages that were never written are not really there
  }
  ReadKernel kernel = read_kernels().front();
  size_t share = size / threads / kReadBlock * kReadBlock;
  // Small sizes are read many times in one go, so that waking the threads does not count.
  auto passes = std::max<size_t>(1, (size_t{8} << 20) / size);
  Stopwatch all;
  for (int i = 0; i < 3 || all.elapsed_s() < seconds; ++i) {
    Stopwatch watch;
    pool_.on_all([&](int thread) {
      for (size_t pass = 0; pass < passes; ++pass)
        kernel.run(memory_.data() + static_cast<size_t>(thread) * share, share);
    });
    known = std::max(known, static_cast<double>(share * threads * passes) / watch.elapsed_s());
  }
  return known;
}

double KernelFloor::peak(bool matrix_bf16, double seconds) {
  double& known = peaks_[matrix_bf16];
  if (known > 0 && seconds <= kMeasureFor) return known;
  PeakKernel kernel = (matrix_bf16 ? bf16_peak_kernels() : f32_peak_kernels()).front();
  Stopwatch all;
  for (int i = 0; i < 3 || all.elapsed_s() < seconds; ++i) {
    Stopwatch watch;
    pool_.on_all([&](int) { kernel.run(); });
    known = std::max(known, kernel.flops * pool_.threads() / watch.elapsed_s());
  }
  return known;
}

Floor KernelFloor::floor(const Cost& cost, DType dtype, bool cold) { return compute(cost, dtype, cold, kMeasureFor); }

Floor KernelFloor::floor_again(const Cost& cost, DType dtype, bool cold) {
  return compute(cost, dtype, cold, 10 * kMeasureFor);
}

Floor KernelFloor::compute_on_device(const Cost& cost, DType dtype, bool cold, bool again) {
  DeviceRuntime& gpu = device_runtime(device_);
  if (!device_speeds_ || again) {
    DeviceSpeeds now = gpu.measure(), before = device_speeds_.value_or(now);
    now.read_gbps = std::max(now.read_gbps, before.read_gbps);
    now.bf16_tflops = std::max(now.bf16_tflops, before.bf16_tflops);
    now.f32_tflops = std::max(now.f32_tflops, before.f32_tflops);
    device_speeds_ = now;
  }
  const DeviceSpeeds& speeds = *device_speeds_;
  bool half = dtype == DType::kBF16 || dtype == DType::kF16;
  // In f32 the matrix units still give about a quarter of their speed, by products of three bf16 or tf32 parts.
  double matrix = (half ? speeds.bf16_tflops : std::max(speeds.f32_tflops, speeds.bf16_tflops / 4)) * 1e12;
  double vector = (half ? 2 : 1) * speeds.f32_tflops * 1e12;  // two half numbers at once
  Floor floor;
  floor.read_bytes_per_s = speeds.read_gbps * 1e9;
  if (!cold)
    floor.read_bytes_per_s =
        std::max(floor.read_bytes_per_s, gpu.judging().read_speed(static_cast<size_t>(cost.bytes)));
  floor.bytes_s = cost.bytes / floor.read_bytes_per_s;
  floor.flops_s = std::max(cost.matrix_flops / matrix, cost.vector_flops / vector);
  floor.seconds = std::max(floor.bytes_s, floor.flops_s);
  return floor;
}

Floor KernelFloor::compute(const Cost& cost, DType dtype, bool cold, double seconds) {
  if (device_ != kCpu) return compute_on_device(cost, dtype, cold, seconds > kMeasureFor);
  Floor floor;
  floor.read_bytes_per_s = read_speed(cold ? kMainMemory : static_cast<size_t>(cost.bytes), seconds);
  floor.bytes_s = cost.bytes / floor.read_bytes_per_s;
  if (cost.matrix_flops > 0) floor.flops_s = cost.matrix_flops / peak(dtype == DType::kBF16, seconds);
  if (cost.vector_flops > 0) floor.flops_s = std::max(floor.flops_s, cost.vector_flops / peak(false, seconds));
  floor.seconds = std::max(floor.bytes_s, floor.flops_s);
  return floor;
}

}  // namespace fk
