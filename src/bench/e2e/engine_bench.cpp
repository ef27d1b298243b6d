#include "bench/e2e/engine_bench.h"

#include <fmt/format.h>

#include <algorithm>

namespace fk {

EngineBenchResult run_engine_bench(BatchingEngine& engine, const EngineBenchOptions& options) {
  auto step = [&] { return engine.step(); };
  auto show = [&](const std::string& text) {
    if (options.progress) options.progress(text);
  };
  for (int64_t i = 0; i < options.warmups; ++i) {
    show(fmt::format("warm-up {} of {}", i + 1, options.warmups));
    run_on_engine(engine, options.load(-1 - i), step);
  }
  EngineBenchResult result;
  EngineStats before = engine.stats();
  for (int64_t i = 0; i < options.repeats; ++i) {
    show(fmt::format("load {} of {}", i + 1, options.repeats));
    result.loads.push_back(run_on_engine(engine, options.load(i), step));
  }
  EngineStats after = engine.stats();
  result.stats = after;
  result.stats.prompt_tokens -= before.prompt_tokens;
  result.stats.cached_prompt_tokens -= before.cached_prompt_tokens;
  result.stats.generated_tokens -= before.generated_tokens;
  result.stats.preemptions -= before.preemptions;
  result.stats.drafts -= before.drafts;
  result.stats.draft_tokens -= before.draft_tokens;
  result.stats.accepted_tokens -= before.accepted_tokens;
  result.stats.finished -= before.finished;
  result.stats.steps -= before.steps;
  result.stats.compiled_steps -= before.compiled_steps;
  result.stats.step_seconds -= before.step_seconds;
  result.stats.host_seconds -= before.host_seconds;
  if (options.attribute) {
    constexpr int64_t kLoads = 3;
    std::vector<Attribution> loads;
    for (int64_t i = 0; i < kLoads; ++i) {
      show(fmt::format("load {} of {} with a clock around every operator", i + 1, kLoads));
      OperatorTimes times(engine.executor().model().device);
      engine.observe(&times);
      ServedLoad load = run_on_engine(engine, options.load(options.repeats + i), step);
      engine.observe(nullptr);
      loads.push_back(make_attribution(times, 1e3 * load.duration_s));
    }
    result.attribution = least_of(loads);
  }
  return result;
}

std::vector<std::pair<int, double>> latency_percentiles(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  std::vector<std::pair<int, double>> list;
  for (int percent : {10, 25, 50, 75, 90, 99})
    list.emplace_back(percent, linear_quantile(seconds, static_cast<double>(percent) / 100));
  return list;
}

}  // namespace fk
