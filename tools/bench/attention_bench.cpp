// Times the attention operators of this CPU at the shapes of real models: attention_bench [threads] [implementation]
// [line]
//
// The fastest of many short calls is reported, so that noise of the machine does not matter. On a busy machine, use the
// CPU time with one thread (with more threads it includes waiting ones).
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "core/cpu_features.h"
#include "measure/cpu_time.h"
#include "measure/timer.h"
#include "ops/l1/flash_attn_decode.h"
#include "ops/l1/flash_attn_prefill.h"
#include "ops/materialize.h"

namespace {

using namespace fk;

constexpr double kSecondsPerLine = 0.5;

struct Scenario {
  std::string_view op;
  int64_t num_heads, num_kv_heads, head_size;
  std::vector<Sequence> sequences;
  int64_t sliding_window = 0;
  double logits_soft_cap = 0;
};

const Scenario kScenarios[] = {
    {"flash_attn_prefill", 32, 8, 64, {{512, 0}}},         // Llama 3.2 1B
    {"flash_attn_prefill", 32, 8, 64, {{2048, 0}}},        //
    {"flash_attn_prefill", 32, 8, 64, {{64, 4032}}},       // a chunk of a long prompt
    {"flash_attn_prefill", 16, 8, 128, {{512, 0}}},        // Qwen3 0.6B
    {"flash_attn_prefill", 4, 1, 256, {{512, 0}}},         // Gemma 3 1B
    {"flash_attn_prefill", 4, 1, 256, {{2048, 0}}, 512},   // its layers with a window
    {"flash_attn_prefill", 8, 4, 256, {{512, 0}}, 0, 50},  // Gemma 2 2B
    {"flash_attn_decode", 32, 8, 64, {{1, 511}}},
    {"flash_attn_decode", 32, 8, 64, {{1, 8191}}},
    {"flash_attn_decode", 32, 8, 64, {{1, 65535}}},
    {"flash_attn_decode", 16, 8, 128, {{1, 8191}}},
    {"flash_attn_decode", 4, 1, 256, {{1, 8191}}},
    {"flash_attn_decode", 32, 32, 128, {{1, 8191}}},  // no groups
    {"flash_attn_decode", 32, 8, 64, std::vector<Sequence>(32, Sequence{1, 1023})},
};

Fields init_of(const OperatorInfo& info, const Scenario& scenario) {
  Fields init = info.default_init();
  for (Field& f : init) {
    if (f.name == "num_heads") f.value = scenario.num_heads;
    if (f.name == "num_kv_heads") f.value = scenario.num_kv_heads;
    if (f.name == "head_size") f.value = scenario.head_size;
    if (f.name == "softmax_scale") f.value = 0.1;
    if (f.name == "sliding_window") f.value = scenario.sliding_window;
    if (f.name == "logits_soft_cap") f.value = scenario.logits_soft_cap;
  }
  return init;
}

// Random numbers for the start of a tensor, repeated to its end.
void fill_quickly(const View& view, const Generator& generator, const BatchMetadata& batch) {
  constexpr int64_t kDrawn = 100'003;
  int64_t n = view.numel(), drawn = dtype_is_float(view.dtype()) ? std::min(n, kDrawn) : n;
  fill(drawn < n ? View(view.data(), {drawn}, view.dtype()) : view, generator, 1, "", batch);
  auto* bytes = static_cast<std::byte*>(view.data());
  auto size = static_cast<int64_t>(dtype_size(view.dtype()));
  for (int64_t i = drawn; i < n; i += drawn)
    std::memcpy(bytes + i * size, bytes, static_cast<size_t>(std::min(drawn, n - i) * size));
}

void measure(const Scenario& scenario, const ImplementationInfo& implementation, DType dtype, ThreadPool& pool) {
  const OperatorInfo& info = Registry::instance().at(scenario.op);
  Fields init = init_of(info, scenario);
  Workload workload = Workload::batch(scenario.sequences, true);
  workload.dtype = dtype;
  BuildOptions options;
  options.only_operator = info.name;
  options.only_implementation = implementation.name;
  std::unique_ptr<Node> node = info.build(init, options);
  BatchMetadata batch(workload, 1);
  std::vector<Tensor> given;
  std::vector<OptView> args;
  for (const auto& input : info.inputs(init, workload)) {
    given.emplace_back(input->spec);
    fill_quickly(given.back(), input->generator, batch);
    args.emplace_back(given.back());
  }
  Tensor out(*node->outputs(args).specs[0]);
  args.push_back(out.view());

  Arena arena;
  Context ctx{.pool = pool, .arena = arena, .attention = nullptr, .states = {}};
  double best = std::numeric_limits<double>::infinity(), best_cpu = best;
  for (Stopwatch all; all.elapsed_s() < kSecondsPerLine;) {
    arena.reset();
    Stopwatch one;
    CpuStopwatch one_cpu;
    node->call(ctx, args);
    best_cpu = std::min(best_cpu, one_cpu.elapsed_s());
    best = std::min(best, one.elapsed_s());
  }
  Cost cost = info.cost(init, workload);
  const Sequence& s = scenario.sequences[0];
  fmt::print(
      "{:<19}{:<14}{:<5} H={:<3} K={:<3} Dh={:<4} {:>2} x ({:>4} new, {:>5} before){:<12} {:9.3f} ms ({:.3f} CPU) "
      "{:6.1f} GFLOP/s {:6.1f} GB/s\n",
      info.name, implementation.name, dtype_name(dtype), scenario.num_heads, scenario.num_kv_heads, scenario.head_size,
      scenario.sequences.size(), s.query_len, s.context_len,
      scenario.sliding_window > 0    ? fmt::format(" window {}", scenario.sliding_window)
      : scenario.logits_soft_cap > 0 ? " soft cap"
                                     : "",
      best * 1e3, best_cpu * 1e3, (cost.matrix_flops + cost.vector_flops) / best * 1e-9, cost.bytes() / best * 1e-9);
}

}  // namespace

int main(int argc, char** argv) {
  cpu_features();
  ThreadPool pool(argc > 1 ? std::max(1, std::atoi(argv[1])) : usable_cores());
  std::string wanted = argc > 2 ? argv[2] : "";
  int line = argc > 3 ? std::atoi(argv[3]) : 0;
  for (const Scenario& scenario : kScenarios) {
    if (line > 0 && &scenario != &kScenarios[line - 1]) continue;
    for (const ImplementationInfo& implementation : Registry::instance().at(scenario.op).implementations) {
      if (implementation.is_oracle || (implementation.unavailable != nullptr && !implementation.unavailable().empty()))
        continue;
      if (!wanted.empty() && wanted != implementation.name) continue;
      measure(scenario, implementation, DType::kBF16, pool);
    }
  }
}
