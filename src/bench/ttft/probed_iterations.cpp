#include "bench/ttft/probed_iterations.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "core/device_runtime.h"
#include "measure/device_probe.h"
#include "ops/registry.h"

namespace fk {
namespace {

constexpr double kMsPerS = 1e3;

// The larger of the typical speeds before and after: the limit for the iteration.
Speeds speeds_between(const MachineProbe& before, const MachineProbe& after, DType dtype) {
  Speeds b = median_speeds(before, dtype), a = median_speeds(after, dtype);
  return {std::max(b.read, a.read), std::max(b.compute, a.compute)};
}

uint64_t peak_memory_bytes(Device device) {
  if (device != kCpu) {
    DeviceRuntime& runtime = device_runtime(device);
    return runtime.facts().memory_bytes - runtime.free_bytes();  // nothing is freed between steps
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

MachineProbe best_of(const std::vector<MachineProbe>& probes) {
  MachineProbe best = probes.front();
  for (const MachineProbe& p : probes) {
    if (p.read_gbps.best > best.read_gbps.best) best.read_gbps = p.read_gbps;
    if (p.bf16_tflops.best > best.bf16_tflops.best) best.bf16_tflops = p.bf16_tflops;
    if (p.f32_tflops.best > best.f32_tflops.best) best.f32_tflops = p.f32_tflops;
  }
  return best;
}

}  // namespace

void ProbedIterations::run(const std::function<void(int64_t i)>& work, TtftResult& result) {
  auto progress = [&](const std::string& text) {
    if (options_.progress) options_.progress(text);
  };
  // Streaming the model's own weights needs no extra memory and can be done around every iteration. A model that fits
  // into caches is too small; then the probe uses its own memory, once, after the peak memory was read.
  constexpr size_t kLeastMemory = size_t{512} << 20, kMostMemory = size_t{1} << 30;
  std::span<const std::byte> weights = model_.weights.memory();
  bool on_cpu = model_.device == kCpu, probe_weights = on_cpu && weights.size() >= kLeastMemory;
  ProbeOptions probe_options{.budget_s = probe_weights ? 0.3 : 1.5, .memory = {}, .progress = {}};
  if (probe_weights) probe_options.memory = weights.first(std::min(weights.size(), kMostMemory));

  // All at once, so that a rank measures the part of this machine's speed that it has while the others work too.
  auto wait_for_ranks = [&] {
    if (model_.communicator != nullptr) model_.communicator->barrier();
  };
  std::vector<MachineProbe> probes;
  for (int64_t i = -options_.warmups; i < options_.iters; ++i) {
    progress(i < 0 ? "warming up" : fmt::format("iteration {} of {}", i + 1, options_.iters));
    wait_for_ranks();
    if (probe_weights && options_.floors && i >= 0) probes.push_back(probe_machine(pool_, probe_options));
    work(i);
  }
  result.peak_memory_bytes = peak_memory_bytes(model_.device);
  result.dispatches = collect_dispatches(*model_.root);
  if (!options_.floors) return;
  progress("measuring this machine");
  wait_for_ranks();
  probes.push_back(on_cpu ? probe_machine(pool_, probe_options) : probe_device(device_runtime(model_.device)));
  result.machine = best_of(probes);
  for (size_t i = 0; i < static_cast<size_t>(options_.iters); ++i)
    speeds_.push_back(probe_weights ? speeds_between(probes[i], probes[i + 1], model_.config.facts.dtype)
                                    : best_speeds(result.machine, model_.config.facts.dtype));
}

void ProbedIterations::set_floors(TimedWork& work, const std::vector<Workload>& passes) const {
  const OperatorInfo& op = model_.root->info();
  work.floors_ms.assign(speeds_.size(), 0);
  for (const Workload& w : passes) {
    Cost cost = op.cost(model_.root->init(), w);
    work.bytes += cost.bytes();
    work.flops += cost.matrix_flops;
    for (size_t i = 0; i < speeds_.size(); ++i)
      work.floors_ms[i] += floor_s(cost.bytes(), cost.matrix_flops / cost.matrix_speedup, speeds_[i]) * kMsPerS;
  }
}

Workload ProbedIterations::one_pass(int64_t sequences, int64_t new_tokens, int64_t context) const {
  return {.sequences = std::vector<Sequence>(static_cast<size_t>(sequences), {new_tokens, context}),
          .dtype = model_.config.facts.dtype};
}

}  // namespace fk
