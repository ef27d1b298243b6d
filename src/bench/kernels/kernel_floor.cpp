#include "bench/kernels/kernel_floor.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "measure/probe_kernels.h"
#include "measure/timer.h"

namespace fk {
namespace {
constexpr size_t kMainMemory = size_t{512} << 20;  // larger than the caches a few cores have to themselves
constexpr double kMeasureFor = 0.03;
}  // namespace

double KernelFloor::read_speed(size_t size_bytes) {
  auto threads = static_cast<size_t>(pool_.threads());
  size_t least = threads * kReadBlock;
  size_t size = std::clamp(std::bit_ceil(size_bytes), std::bit_ceil(least), kMainMemory);
  if (auto known = read_speeds_.find(size); known != read_speeds_.end()) return known->second;
  if (memory_.size() < size) {
    memory_ = Buffer(size);
    std::memset(memory_.data(), 1, memory_.size());  // pages that were never written are not really there
  }
  ReadKernel kernel = read_kernels().front();
  size_t share = size / threads / kReadBlock * kReadBlock;
  // Small sizes are read many times in one go, so that waking the threads does not count.
  auto passes = std::max<size_t>(1, (size_t{8} << 20) / size);
  double best = 0;
  Stopwatch all;
  for (int i = 0; i < 3 || all.elapsed_s() < kMeasureFor; ++i) {
    Stopwatch watch;
    pool_.on_all([&](int thread) {
      for (size_t pass = 0; pass < passes; ++pass)
        kernel.run(memory_.data() + static_cast<size_t>(thread) * share, share);
    });
    best = std::max(best, static_cast<double>(share * threads * passes) / watch.elapsed_s());
  }
  return read_speeds_[size] = best;
}

double KernelFloor::peak(bool matrix_bf16) {
  if (auto known = peaks_.find(matrix_bf16); known != peaks_.end()) return known->second;
  PeakKernel kernel = (matrix_bf16 ? bf16_peak_kernels() : f32_peak_kernels()).front();
  double best = 0;
  Stopwatch all;
  for (int i = 0; i < 3 || all.elapsed_s() < kMeasureFor; ++i) {
    Stopwatch watch;
    pool_.on_all([&](int) { kernel.run(); });
    best = std::max(best, kernel.flops * pool_.threads() / watch.elapsed_s());
  }
  return peaks_[matrix_bf16] = best;
}

Floor KernelFloor::floor(const Cost& cost, DType dtype, bool cold) {
  Floor floor;
  floor.read_bytes_per_s = read_speed(cold ? kMainMemory : static_cast<size_t>(cost.bytes));
  floor.bytes_s = cost.bytes / floor.read_bytes_per_s;
  if (cost.matrix_flops > 0) floor.flops_s = cost.matrix_flops / peak(dtype == DType::kBF16);
  if (cost.vector_flops > 0) floor.flops_s = std::max(floor.flops_s, cost.vector_flops / peak(false));
  floor.seconds = std::max(floor.bytes_s, floor.flops_s);
  return floor;
}

}  // namespace fk
