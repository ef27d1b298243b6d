// Measures in slices of at most a few milliseconds and keeps the fastest run of each: a slice needs only a few
// milliseconds without interference, a whole pass would need a tenth of a second.
#include "measure/machine_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include "core/check.h"
#include "core/error.h"
#include "core/json.h"
#include "core/memory.h"
#include "measure/machine_cpu.h"
#include "measure/machine_limits.h"
#include "measure/probe_kernels.h"
#include "measure/read_loops.h"
#include "measure/statistics.h"
#include "measure/timer.h"

namespace fk {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kSliceBytesPerThread = 16 * kMiB;  // 1 to 4 ms: starting the threads is under 1 % of it
constexpr size_t kMinBytesPerThread = kMiB;

// Total size of the caches these threads can use: each thread may have a last-level cache of its own.
size_t reachable_cache_bytes(int threads) {
  int logical = cpu_layout().logical;
  size_t reachable = 0;
  for (const CpuCache& cache : cpu_caches()) {
    int instances = cache.shared_by > 0 ? std::max(1, logical / cache.shared_by) : 1;
    reachable = std::max(reachable, static_cast<size_t>(cache.size_bytes) * std::min(threads, instances));
  }
  return reachable;
}

// One slice is a contiguous part of memory, divided into one contiguous part per thread.
struct Slices {
  const std::byte* data;
  size_t bytes_per_thread;
  size_t count;
  size_t threads;

  size_t slice_bytes() const { return bytes_per_thread * threads; }
  size_t bytes() const { return slice_bytes() * count; }
  const std::byte* part(size_t slice, int thread) const {
    return data + slice * slice_bytes() + static_cast<size_t>(thread) * bytes_per_thread;
  }
};

Slices cut(std::span<const std::byte> memory, int threads) {
  size_t lost = (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  size_t usable = memory.size() - std::min(lost, memory.size());
  size_t share = usable / static_cast<size_t>(threads) / kReadBlock * kReadBlock;
  if (share < kMinBytesPerThread - kReadBlock)
    throw Error("{} bytes are too few to measure read bandwidth with {} threads; give at least {}", memory.size(),
                threads, static_cast<size_t>(threads) * kMinBytesPerThread);
  Slices slices{memory.data() + lost, std::min(share, kSliceBytesPerThread), 0, static_cast<size_t>(threads)};
  slices.count = usable / slices.slice_bytes();
  return slices;
}

// Allocates memory; every page is written by the thread that will read it. At least twice the size of the caches, more
// if there is time: allocating a page takes longer than reading it.
Buffer make_buffer(ThreadPool& pool, double deadline_s, const Stopwatch& watch, size_t& written_bytes) {
  size_t threads = static_cast<size_t>(pool.threads());
  size_t slice = kSliceBytesPerThread * threads;
  size_t caches = reachable_cache_bytes(pool.threads());
  size_t spare = memory_info().available_bytes / 2;
  auto whole_slices = [&](size_t bytes) { return std::max(size_t{1}, std::min(bytes, spare) / slice) * slice; };
  size_t wanted = whole_slices(std::max({1024 * kMiB, 4 * caches, 2 * slice}));
  size_t least = whole_slices(std::max({256 * kMiB, 2 * caches, 2 * slice}));
  Buffer buffer(wanted);
  for (written_bytes = 0; written_bytes < least || (written_bytes < wanted && watch.elapsed_s() < deadline_s);
       written_bytes += slice) {
    pool.on_all([&](int thread) {
      std::byte* part = buffer.data() + written_bytes + static_cast<size_t>(thread) * kSliceBytesPerThread;
      for (size_t i = 0; i < kSliceBytesPerThread; i += kReadPage) part[i] = std::byte{1};
    });
  }
  return buffer;
}

Rate measure_read(ThreadPool& pool, const Slices& slices, double deadline_s, const Stopwatch& watch) {
  constexpr size_t kMinPasses = 4;
  std::vector<double> quickest_s(slices.count, std::numeric_limits<double>::infinity()), passes_s;
  auto pass_s = [&](const ReadKernel& loop, bool counts) {
    double total_s = 0;
    for (size_t slice = 0; slice < slices.count; ++slice) {
      Stopwatch slice_watch;
      pool.on_all([&](int thread) { loop.run(slices.part(slice, thread), slices.bytes_per_thread); });
      double time_s = slice_watch.elapsed_s();
      total_s += time_s;
      if (counts) quickest_s[slice] = std::min(quickest_s[slice], time_s);
    }
    return total_s;
  };
  std::vector<ReadKernel> loops = read_loops(slices.bytes_per_thread);
  // The first pass is a warm-up: it writes back the dirty lines that filling the memory left in the caches. Then one
  // pass for each loop.
  pass_s(loops.front(), false);
  ReadKernel fastest = loops.front();
  double least_s = std::numeric_limits<double>::infinity();
  for (const ReadKernel& loop : loops)
    if (double time_s = pass_s(loop, true); time_s < least_s) {
      least_s = time_s;
      fastest = loop;
    }
  while (passes_s.size() < kMinPasses || watch.elapsed_s() < deadline_s) passes_s.push_back(pass_s(fastest, true));
  double sum_s = 0;
  for (double time_s : quickest_s) sum_s += time_s;
  double gigabytes = static_cast<double>(slices.bytes()) * 1e-9;
  return {gigabytes / sum_s, gigabytes / median(passes_s),
          fmt::format("{} over {} MiB, {} passes", fastest.instruction, slices.bytes() / kMiB, passes_s.size())};
}

Rate measure_peak(ThreadPool& pool, const PeakKernel& kernel, double deadline_s, const Stopwatch& watch) {
  constexpr size_t kMinSlices = 16;
  constexpr double kSliceS = 0.5e-3;
  std::atomic<bool> right{true};
  auto time_slice = [&](int runs) {
    Stopwatch slice_watch;
    pool.on_all([&](int) {
      for (int i = 0; i < runs; ++i)
        if (!kernel.run()) right.store(false, std::memory_order_relaxed);
    });
    return slice_watch.elapsed_s();
  };
  double once_s = time_slice(1);
  for (int i = 0; i < 3; ++i) once_s = std::min(once_s, time_slice(1));
  int runs = static_cast<int>(std::clamp(kSliceS / once_s, 1.0, 1000.0));
  std::vector<double> slices_s;
  while (slices_s.size() < kMinSlices || watch.elapsed_s() < deadline_s) slices_s.push_back(time_slice(runs));
  if (!right)
    throw Error("this CPU gives wrong sums with {}; do not trust results from this machine", kernel.instruction);
  double teraflops = kernel.flops * runs * pool.threads() * 1e-12;
  return {teraflops / *std::min_element(slices_s.begin(), slices_s.end()), teraflops / median(slices_s),
          kernel.instruction};
}

Json to_json(const Rate& rate) { return {{"best", rate.best}, {"median", rate.median}, {"how", rate.how}}; }

}  // namespace

MachineProbe probe_machine(ThreadPool& pool, const ProbeOptions& options) {
  Stopwatch watch;
  auto tell = [&](std::string_view what) {
    if (options.progress) options.progress(what);
  };
  // Shares of the budget: allocating memory until 40 %, reading it until 65 %, then the two peaks.
  auto until = [&](double share) { return share * options.budget_s; };
  MachineProbe probe;
  probe.threads = pool.threads();
  tell("measuring read bandwidth");
  Buffer own;
  std::span<const std::byte> memory = options.memory;
  if (memory.empty()) {
    size_t written_bytes = 0;
    own = make_buffer(pool, until(0.40), watch, written_bytes);
    memory = {own.data(), written_bytes};
  }
  Slices slices = cut(memory, pool.threads());
  probe.read_size_bytes = slices.bytes();
  probe.read_gbps = measure_read(pool, slices, until(0.65), watch);
  own = Buffer();
  tell("measuring bf16 arithmetic");
  probe.bf16_tflops = measure_peak(pool, bf16_peak_kernels().front(), until(0.85), watch);
  tell("measuring f32 arithmetic");
  probe.f32_tflops = measure_peak(pool, f32_peak_kernels().front(), until(1.0), watch);
  return probe;
}

Json to_json(const MachineProbe& probe) {
  return {{"threads", probe.threads},
          {"read_size_bytes", probe.read_size_bytes},
          {"read_gbps", to_json(probe.read_gbps)},
          {"bf16_tflops", to_json(probe.bf16_tflops)},
          {"f32_tflops", to_json(probe.f32_tflops)}};
}

}  // namespace fk
