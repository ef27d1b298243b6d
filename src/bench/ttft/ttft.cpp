#include "bench/ttft/ttft.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>

#include "core/device_runtime.h"
#include "core/error.h"
#include "core/rng.h"
#include "engine/decode_loop.h"
#include "engine/finite_logits.h"
#include "measure/device_probe.h"
#include "measure/roofline.h"
#include "measure/statistics.h"
#include "measure/timer.h"
#include "ops/registry.h"

namespace fk {

double TimedWork::median_ms() const { return median(samples_ms); }
double TimedWork::floor_ms() const { return floors_ms.empty() ? std::nan("") : median(floors_ms); }

double TimedWork::floor_share() const {
  if (floors_ms.empty()) return std::nan("");
  std::vector<double> shares;
  for (size_t i = 0; i < samples_ms.size(); ++i) shares.push_back(fk::floor_share(floors_ms[i], samples_ms[i]));
  return median(shares);
}

namespace {

constexpr double kMsPerS = 1e3;

std::vector<std::vector<int64_t>> random_prompts(const TtftOptions& options, int64_t iteration, int64_t vocab_size) {
  Stream stream(options.seed, fmt::format("prompt {}", iteration));
  std::vector<std::vector<int64_t>> prompts(static_cast<size_t>(options.batch_size));
  uint64_t at = 0;
  for (std::vector<int64_t>& prompt : prompts)
    for (int64_t i = 0; i < options.prompt_tokens; ++i)
      prompt.push_back(static_cast<int64_t>(stream.below(at++, static_cast<uint64_t>(vocab_size))));
  return prompts;
}

// Times of one iteration, in ms.
struct IterationTimes {
  double prefill = 0;
  double sequential = 0;
  double decode = 0;
};

// One iteration's sequences: prompts, then tokens drawn from them.
class Iteration {
 public:
  Iteration(Runner& runner, DecodeLoop& loop, const TtftOptions& options,
            const std::vector<std::vector<int64_t>>& prompts)
      : runner_(runner), loop_(loop), options_(options), prompts_(prompts) {}

  IterationTimes run() {
    IterationTimes sample;
    if (options_.sequential) {
      begin();
      start_loop(column(0), options_.prompt_tokens);
      sample.sequential = time([&] {
        loop_.step();
        for (int64_t i = 1; i < options_.prompt_tokens; ++i) loop_.step_with(column(i));
      });
      end();
    }
    begin();
    std::vector<NewTokens> items;
    for (size_t i = 0; i < prompts_.size(); ++i) items.push_back({&sequences_[i], prompts_[i]});
    sample.prefill = time([&] { runner_.forward(items); });
    start_loop(column(0), options_.decode_tokens);  // the first tokens do not affect the time
    loop_.step();                                   // warm-up: the first step after a prompt has colder caches
    runner_.wait();
    sample.decode = time([&] {
      for (int64_t i = 1; i < options_.decode_tokens; ++i) loop_.step();
    });
    sample.decode /= static_cast<double>(options_.decode_tokens - 1);
    require_finite_logits(runner_.model(), loop_.logits());
    end();
    return sample;
  }

 private:
  void begin() {
    for (size_t i = 0; i < prompts_.size(); ++i) sequences_.push_back(runner_.start());
  }
  void end() {
    for (RunningSequence& sequence : sequences_) runner_.finish(sequence);
    sequences_.clear();
  }

  // Token i of every prompt.
  std::vector<int64_t> column(int64_t i) const {
    std::vector<int64_t> tokens;
    for (const std::vector<int64_t>& prompt : prompts_) tokens.push_back(prompt[static_cast<size_t>(i)]);
    return tokens;
  }

  void start_loop(const std::vector<int64_t>& tokens, int64_t steps) {
    std::vector<RunningSequence*> all;
    for (RunningSequence& sequence : sequences_) all.push_back(&sequence);
    std::vector<SamplingParams> greedy(all.size());
    std::vector<int64_t> drawn(all.size());
    loop_.start(all, tokens, greedy, drawn, steps);
    runner_.wait();
  }

  template <class Work>
  double time(Work&& work) const {
    int64_t start = now_ns();
    work();
    runner_.wait();
    return static_cast<double>(now_ns() - start) / kNsPerMs;
  }

  Runner& runner_;
  DecodeLoop& loop_;
  const TtftOptions& options_;
  const std::vector<std::vector<int64_t>>& prompts_;
  std::vector<RunningSequence> sequences_;
};

// The larger of the typical speeds before and after: the limit for the iteration.
Speeds speeds_between(const MachineProbe& before, const MachineProbe& after, DType dtype) {
  Speeds b = median_speeds(before, dtype), a = median_speeds(after, dtype);
  return {std::max(b.read, a.read), std::max(b.compute, a.compute)};
}

void set_floors(TimedWork& work, const Model& model, const std::vector<Workload>& passes,
                const std::vector<Speeds>& speeds) {
  const OperatorInfo& op = model.root->info();
  work.floors_ms.assign(speeds.size(), 0);
  for (const Workload& w : passes) {
    Cost cost = op.cost(model.root->init(), w);
    work.bytes += cost.bytes();
    work.flops += cost.matrix_flops;
    for (size_t i = 0; i < speeds.size(); ++i)
      work.floors_ms[i] += floor_s(cost.bytes(), cost.matrix_flops / cost.matrix_speedup, speeds[i]) * kMsPerS;
  }
}

Workload one_pass(const Model& model, int64_t sequences, int64_t new_tokens, int64_t context) {
  return {.sequences = std::vector<Sequence>(static_cast<size_t>(sequences), {new_tokens, context}),
          .dtype = model.config.facts.dtype};
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

void check_options(const TtftOptions& options) {
  if (options.prompt_tokens < 1) throw UsageError("--prompt-tokens must be at least 1.");
  if (options.decode_tokens < 2)
    throw UsageError("--decode-tokens must be at least 2: one warms up, the rest are timed.");
  if (options.batch_size < 1) throw UsageError("--batch-size must be at least 1.");
  if (options.iters < 1) throw UsageError("--iters must be at least 1.");
  if (options.warmups < 0) throw UsageError("--warmups cannot be negative.");
}

TtftResult run_ttft(const Model& model, ThreadPool& pool, const TtftOptions& options) {
  check_options(options);
  auto progress = [&](const std::string& text) {
    if (options.progress) options.progress(text);
  };
  // Streaming the model's own weights needs no extra memory and can be done around every iteration. A model that fits
  // into caches is too small; then the probe uses its own memory, once, after the peak memory was read.
  constexpr size_t kLeastMemory = size_t{512} << 20, kMostMemory = size_t{1} << 30;
  std::span<const std::byte> weights = model.weights.memory();
  bool on_cpu = model.device == kCpu, probe_weights = on_cpu && weights.size() >= kLeastMemory;
  ProbeOptions probe_options{.budget_s = probe_weights ? 0.3 : 1.5, .memory = {}, .progress = {}};
  if (probe_weights) probe_options.memory = weights.first(std::min(weights.size(), kMostMemory));

  int64_t total = options.prompt_tokens + options.decode_tokens;
  Runner runner(model, pool,
                {.max_sequences = options.batch_size,
                 .max_context = total,
                 .max_step_tokens = options.prompt_tokens * options.batch_size});
  DecodeLoop loop(runner, options.batch_size);
  TtftResult result;
  if (options.sequential) result.sequential.emplace();
  std::vector<MachineProbe> probes;
  for (int64_t i = -options.warmups; i < options.iters; ++i) {
    progress(i < 0 ? "warming up" : fmt::format("iteration {} of {}", i + 1, options.iters));
    if (probe_weights && options.floors && i >= 0) probes.push_back(probe_machine(pool, probe_options));
    std::vector<std::vector<int64_t>> prompts = random_prompts(options, i, model.config.facts.vocab_size);
    IterationTimes sample = Iteration(runner, loop, options, prompts).run();
    if (i < 0) continue;
    result.prefill.samples_ms.push_back(sample.prefill);
    result.decode.samples_ms.push_back(sample.decode);
    if (result.sequential) result.sequential->samples_ms.push_back(sample.sequential);
  }
  result.peak_memory_bytes = peak_memory_bytes(model.device);
  result.dispatches = collect_dispatches(*model.root);
  std::vector<Speeds> speeds;
  if (options.floors) {
    progress("measuring this machine");
    probes.push_back(on_cpu ? probe_machine(pool, probe_options) : probe_device(device_runtime(model.device)));
    result.machine = best_of(probes);
  }
  for (size_t i = 0; options.floors && i < static_cast<size_t>(options.iters); ++i) {
    speeds.push_back(probe_weights ? speeds_between(probes[i], probes[i + 1], model.config.facts.dtype)
                                   : best_speeds(result.machine, model.config.facts.dtype));
  }
  set_floors(result.prefill, model, {one_pass(model, options.batch_size, options.prompt_tokens, 0)}, speeds);
  // Every decode step reads one more key; the middle step is the mean.
  set_floors(result.decode, model,
             {one_pass(model, options.batch_size, 1, options.prompt_tokens + options.decode_tokens / 2)}, speeds);
  if (result.sequential) {
    std::vector<Workload> passes;
    for (int64_t t = 0; t < options.prompt_tokens; ++t) passes.push_back(one_pass(model, options.batch_size, 1, t));
    set_floors(*result.sequential, model, passes, speeds);
  }
  return result;
}

}  // namespace fk
