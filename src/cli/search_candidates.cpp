#include "cli/search_candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "bench/kernels/kernel_bench.h"
#include "bench/scenarios/dry_run.h"
#include "bench/scenarios/memory_plan.h"
#include "bench/scenarios/name_calls.h"
#include "bench/scenarios/steps.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "engine/model.h"
#include "measure/machine_info.h"

namespace fk {
namespace {

// A judgement takes a quarter of a second or more. It tries other shapes and inputs by itself, so few calls are enough.
constexpr size_t kMostCalls = 4;
constexpr double kLimitS = 20;  // of one judgement
constexpr double kCopies = 6;   // of a call's memory that a judgement needs

// Different calls of an operator in a small step that decodes, and in the smallest with prompts.
std::vector<Scenario> calls_to_judge(const ModelSource& source, std::string_view op) {
  std::vector<Step> steps = steps_of(source.config.facts), few;
  if (!steps.empty()) few.push_back(steps[std::min<size_t>(1, steps.size() - 1)]);
  auto prompts = std::find_if(steps.begin(), steps.end(), [](const Step& s) { return s.name.starts_with("prefill"); });
  if (prompts != steps.end() && prompts->name != few.front().name) few.push_back(*prompts);
  std::unique_ptr<Node> root = build_model(source.config, dry_build_options());
  CallRecorder recorder(false, std::string(op));
  std::vector<Scenario> scenarios;
  std::set<std::string> seen;
  for (const Step& step : few) {
    Workload workload = Workload::batch(step.sequences);
    workload.dtype = source.config.facts.dtype;
    dry_run(*root, workload, &recorder);
    std::vector<RecordedCall> calls = recorder.take_calls();
    for (RecordedCall& call : calls) call.step = step.name;
    name_calls(calls, source.name);
    for (RecordedCall& call : calls)
      if (scenarios.size() < kMostCalls && seen.insert(call_text(call.scenario)).second)
        scenarios.push_back(std::move(call.scenario));
  }
  return scenarios;
}

bool has_room(const Scenario& scenario, Device device) {
  MemoryInfo memory = machine_info().memory;
  if (device != kCpu) {
    DeviceRuntime& gpu = device_runtime(device);
    memory = {gpu.facts().memory_bytes, gpu.free_bytes(), 0};
  }
  return refuse_memory(scenario, plan_memory(scenario), memory, kCopies).empty();
}

void judge_first(const BuiltCandidate& built, CandidateRecord& record, const ModelSource& source, KernelBench& bench,
                 const CommonOptions& common, Progress& progress) {
  KernelOptions check;
  check.timing.threads = common.threads;
  check.timeout_s = kLimitS;
  check.last_call = std::numeric_limits<int>::max();  // the whole judgement, and no timing
  for (const Scenario& scenario : calls_to_judge(source, record.op)) {
    if (!has_room(scenario, common.device)) continue;
    progress.show(fmt::format("judging the candidate for {} in {}", record.op, scenario.name));
    const KernelResult result = bench.run(scenario, built.compiled.so_path, check, [](std::string_view) {});
    // What it refuses it does not run, and what cannot be judged is no fault of its own.
    if (result.verdict == Verdict::kRefused || result.verdict == Verdict::kInvalidTask) continue;
    if (!result.passed())
      throw Error(
          "The candidate for {}, which was never judged before, is {} in {}: {} Fix it (`fastkernels kernels --target "
          "{}` shows more), run without candidates (--no-candidate-kernels), or use it anyway (--allow-incorrect).",
          record.op, verdict_name(result.verdict), scenario.name, result.sentence, record.op);
    record.judged = "passed";
  }
}

}  // namespace

std::vector<CandidateRecord> judged_candidates_for(const ModelSource& source, const CandidateOptions& options,
                                                   const CommonOptions& common, Progress& progress) {
  if (options.disabled || options.allow_incorrect) return activate_candidates(options, common);
  const std::vector<CandidateFile> files = find_candidates(candidate_folder(), common.device.kind);
  if (files.empty()) return {};
  progress.show("compiling candidates");
  const std::vector<BuiltCandidate> built =
      build_candidates(files, {.cxxflags = split_flags(options.cxxflags), .allow_libraries = options.allow_libraries});
  std::vector<CandidateRecord> records = look_up_candidates(built, "");
  std::vector<CandidateRecord> failed;
  for (const CandidateRecord& r : records)
    if (r.judged == "failed") failed.push_back(r);
  check_judged(failed, false);
  ThreadPool pool(common.threads);
  KernelBench bench(pool, common.device);
  for (size_t i = 0; i < records.size(); ++i)
    if (records[i].judged == "never") judge_first(built[i], records[i], source, bench, common, progress);
  progress.show("");
  check_judged(records, false);
  swap_in(built);
  return records;
}

}  // namespace fk
