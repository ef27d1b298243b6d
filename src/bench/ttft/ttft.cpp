#include "bench/ttft/ttft.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <numeric>

#include "core/error.h"
#include "core/rng.h"
#include "measure/roofline.h"
#include "measure/statistics.h"
#include "measure/timer.h"
#include "ops/registry.h"

namespace fk {

double TimedWork::median_ms() const { return median(samples_ms); }

namespace {

constexpr double kNsPerMs = 1e6;

std::vector<int64_t> random_tokens(uint64_t seed, int64_t iteration, int64_t count, int64_t vocab_size) {
  Stream stream(seed, fmt::format("prompt {}", iteration));
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int64_t>(stream.below(static_cast<uint64_t>(i), static_cast<uint64_t>(vocab_size))));
  return tokens;
}

// Times of one iteration, in ms.
struct Sample {
  double prefill = 0;
  double sequential = 0;
  double decode = 0;
};

class Iteration {
 public:
  Iteration(Runner& runner, const TtftOptions& options, std::vector<int64_t> tokens)
      : runner_(runner), options_(options), tokens_(std::move(tokens)) {}

  Sample run() {
    Sample sample;
    std::span<const int64_t> prompt = std::span(tokens_).first(static_cast<size_t>(options_.prompt_tokens));
    if (options_.sequential) {
      RunningSequence sequence = runner_.start();
      for (size_t i = 0; i < prompt.size(); ++i) sample.sequential += pass(sequence, prompt.subspan(i, 1));
      runner_.finish(sequence);
    }
    RunningSequence sequence = runner_.start();
    sample.prefill = pass(sequence, prompt);
    // Tokens to decode are drawn like the prompt's: what is fed does not change the work, and sampling is not timed.
    std::span<const int64_t> fed = std::span(tokens_).subspan(prompt.size());
    pass(sequence, fed.first(1));  // warm: the first step after a prompt finds other caches than the rest
    for (size_t i = 1; i < fed.size(); ++i) sample.decode += pass(sequence, fed.subspan(i, 1));
    sample.decode /= static_cast<double>(fed.size() - 1);
    runner_.finish(sequence);
    return sample;
  }

 private:
  double pass(RunningSequence& sequence, std::span<const int64_t> tokens) {
    const NewTokens item{&sequence, tokens};
    int64_t start = now_ns();
    runner_.forward({&item, 1});
    return static_cast<double>(now_ns() - start) / kNsPerMs;
  }

  Runner& runner_;
  const TtftOptions& options_;
  std::vector<int64_t> tokens_;
};

void set_floor(TimedWork& work, const Model& model, const std::vector<Workload>& passes, const MachineProbe& machine) {
  const OperatorInfo& op = model.root->info();
  for (const Workload& w : passes) {
    Cost cost = op.cost(model.root->init(), w);
    work.bytes += cost.bytes;
    work.flops += cost.matrix_flops;
    work.floor_ms += floor_ns(cost.bytes, cost.matrix_flops, model.config.dtype, machine) / kNsPerMs;
  }
}

Workload one_pass(const Model& model, int64_t new_tokens, int64_t context) {
  return {.sequences = {{new_tokens, context}}, .dtype = model.config.dtype};
}

uint64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

// Another program may have had the machine during one of the two.
MachineProbe better(MachineProbe a, const MachineProbe& b) {
  if (b.read_gbps.best > a.read_gbps.best) a.read_gbps = b.read_gbps;
  if (b.bf16_tflops.best > a.bf16_tflops.best) a.bf16_tflops = b.bf16_tflops;
  if (b.f32_tflops.best > a.f32_tflops.best) a.f32_tflops = b.f32_tflops;
  return a;
}

}  // namespace

TtftResult run_ttft(const Model& model, ThreadPool& pool, const TtftOptions& options) {
  if (options.prompt_tokens < 1) throw UsageError("--prompt-tokens must be at least 1.");
  if (options.decode_tokens < 2) throw UsageError("--decode-tokens must be at least 2: one warms up, the rest are timed.");
  if (options.iters < 1) throw UsageError("--iters must be at least 1.");
  if (options.warmups < 0) throw UsageError("--warmups cannot be negative.");
  auto progress = [&](const std::string& text) {
    if (options.progress) options.progress(text);
  };
  ProbeOptions probe_options{.budget_s = 1, .memory = model.weights.memory(), .progress = {}};
  constexpr size_t kLeastMemory = size_t{512} << 20;  // a smaller model fits caches; the probe then takes its own memory
  if (probe_options.memory.size() < kLeastMemory) probe_options.memory = {};

  int64_t total = options.prompt_tokens + options.decode_tokens;
  Runner runner(model, pool, {.max_sequences = 1, .max_context = total, .max_step_tokens = options.prompt_tokens});
  TtftResult result;
  if (options.sequential) result.sequential.emplace();
  // Probing weights costs no memory. A small model's run has to bring memory of its own, so it comes after the peak is read.
  if (!probe_options.memory.empty()) {
    progress("measuring this machine");
    result.machine = probe_machine(pool, probe_options);
  }
  for (int64_t i = -options.warmups; i < options.iters; ++i) {
    progress(i < 0 ? "warming up" : fmt::format("iteration {} of {}", i + 1, options.iters));
    Sample sample = Iteration(runner, options, random_tokens(options.seed, i, total, model.config.vocab_size)).run();
    if (i < 0) continue;
    result.prefill.samples_ms.push_back(sample.prefill);
    result.decode.samples_ms.push_back(sample.decode);
    if (result.sequential) result.sequential->samples_ms.push_back(sample.sequential);
  }
  result.peak_memory_bytes = peak_memory_bytes();
  progress("measuring this machine");
  result.machine = better(probe_machine(pool, probe_options), result.machine);
  result.dispatches = collect_dispatches(*model.root);

  set_floor(result.prefill, model, {one_pass(model, options.prompt_tokens, 0)}, result.machine);
  // Every decode step reads one more key; the middle one stands for their mean.
  set_floor(result.decode, model, {one_pass(model, 1, options.prompt_tokens + options.decode_tokens / 2)}, result.machine);
  if (result.sequential) {
    std::vector<Workload> passes;
    for (int64_t t = 0; t < options.prompt_tokens; ++t) passes.push_back(one_pass(model, 1, t));
    set_floor(*result.sequential, model, passes, result.machine);
  }
  return result;
}

}  // namespace fk
