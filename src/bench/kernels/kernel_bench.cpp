#include "bench/kernels/kernel_bench.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "bench/kernels/floor_verdict.h"
#include "bench/kernels/launch_sides.h"
#include "bench/scenarios/scenario_data.h"
#include "bench/scenarios/scenario_file.h"
#include "core/error.h"
#include "measure/timer.h"
#include "sandbox/device_walls.h"
#include "sandbox/local_subject.h"
#include "validate/reference.h"
#include "validate/task_check.h"

namespace fk {
namespace {

// Time per scenario for measuring the rates of its floor, between launches.
constexpr double kObserveS = 50e-3;
// Time for the launches of a timing, at least.
constexpr double kLeastAimS = 1.3;

// Enough for a median that shows the effect of the caches; they do not decide the verdict.
constexpr int kPairsBesides = 20;

void refuse(KernelResult& result, Verdict verdict, std::string sentence) {
  result.verdict = verdict;
  result.sentence = std::move(sentence);
}

// If a scenario defines which rows are read, they may be the same in every call: then reading them is not counted.
SampleCost sample_cost(const Scenario& scenario, int calls) {
  const OperatorInfo& op = scenario.info();
  SampleCost cost(op, scenario.init, scenario.workload, calls);
  Inputs inputs = op.inputs(scenario.init, scenario.workload);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArgumentOverride* o = scenario.override_of(op.args[i].name);
    if (o != nullptr && (o->generator || !o->golden.empty()) && inputs[i] && !dtype_is_float(inputs[i]->spec.dtype))
      cost.call.read_bytes = cost.together.read_bytes = 0;
  }
  return cost;
}

}  // namespace

double KernelResult::of_floor() const {
  if (!timing || timing->failure || timing->paired.candidate.median <= 0) return 0;
  return floor.seconds * 1e9 / timing->paired.candidate.median;
}

KernelResult failed_kernel(const Scenario& scenario, const Failure& failure) {
  KernelResult result;
  result.scenario = scenario;
  refuse(result, failure.verdict, failure.sentence);
  return result;
}

std::optional<Failure> KernelBench::check_task_once(const Scenario& scenario, const InputMaker& inputs,
                                                    Subject& baseline, uint64_t seed) {
  std::string key =
      fmt::format("{}({}) {}", scenario.op, fields_text(scenario.init), dtype_name(scenario.workload.dtype));
  for (const ArgumentOverride& o : scenario.overrides)
    if (o.generator) key += fmt::format(" {}: {}", o.name, generator_text(*o.generator));
  if (sound_tasks_.contains(key)) return std::nullopt;
  TaskCheckOptions options;
  options.seed = seed;
  options.inputs = &inputs;
  std::optional<Failure> failure =
      check_task(scenario.info(), scenario.init, scenario.workload, baseline, options).failure();
  if (!failure) sound_tasks_.insert(key);  // a task that failed may have been too small, so others are checked again
  return failure;
}

KernelResult KernelBench::run(const Scenario& scenario, const std::string& library, const KernelOptions& options,
                              const std::function<void(std::string_view)>& progress) {
  const OperatorInfo& op = scenario.info();
  Stopwatch watch;
  KernelResult result;
  result.scenario = scenario;
  result.cost = op.cost(scenario.init, scenario.workload);

  if (op.collective) {
    refuse(result, Verdict::kInvalidTask,
           fmt::format("{} works between ranks, but a candidate is judged on one rank, where {} only copies; it cannot "
                       "be judged yet.",
                       op.name, op.name));
    return result;
  }
  std::optional<ScenarioInputs> inputs;
  try {
    inputs.emplace(scenario);
  } catch (const Error& e) {
    refuse(result, Verdict::kInvalidTask, e.what());
    return result;
  }

  progress("checking the task");
  JudgeOptions judging;
  judging.inputs = &*inputs;
  judging.seed = options.seed ? *options.seed : secret_number() >> 11;  // JSON numbers are exact up to 53 bits
  judging.last_call = options.last_call;
  judging.seconds = std::min(judging.seconds, options.timeout_s);
  RunnerOptions runner;
  runner.op = scenario.op;
  runner.init = scenario.init;
  runner.threads = options.timing.threads;
  runner.device = device_;
  runner.walls = usable_walls(device_);
  runner.timeout_ns = static_cast<int64_t>(std::min(options.timeout_s, 60.0) * 1e9);
  runner.wait_until_open = device_ == kCpu;  // drivers of both start at the same time
  std::optional<KeptOutput> printed;
  if (options.last_call) runner.output = &printed.emplace();
  std::array<int, LaunchSides::kAll> order = {0, 1, 2, 3};
  auto sides =
      std::make_unique<LaunchSides>(runner, LaunchSides::Libraries{library}, order, !options.last_call, judging.seed);
  if (std::optional<Failure> invalid = check_task_once(scenario, *inputs, sides->baseline(), judging.seed)) {
    refuse(result, invalid->verdict, invalid->sentence);
    return result;
  }
  progress("judging");
  Judge judge(op, scenario.init, scenario.workload, judging);
  if (options.in_process) {
    LocalSubject own(op, scenario.init, library, runner.threads);
    result.judgement = judge.run(own, sides->baseline());
    refuse(result, result.judgement.verdict, result.judgement.passed() ? "" : result.judgement.sentence);
    return result;
  }
  result.judgement = judge.run(sides->candidate(), sides->baseline());
  refuse(result, result.judgement.verdict, result.judgement.passed() ? "" : result.judgement.sentence);
  if (!result.passed() || options.last_call) {
    // If it is timed, it ends after the first launch.
    sides->candidate().process().finish();
    if (result.passed() && sides->failure(LaunchSides::kCandidate))
      refuse(result, sides->failure(LaunchSides::kCandidate)->verdict,
             sides->failure(LaunchSides::kCandidate)->sentence);
    if (printed) result.printed = printed->text();
    result.seconds = watch.elapsed_s();
    return result;
  }

  progress("timing");
  TimingOptions timing = options.timing;
  timing.seed = judging.seed;
  timing.inputs = &*inputs;
  timing.device = device_;
  timing.timeout_ns = runner.timeout_ns;
  timing.budget_s = std::max(1.0, options.timeout_s - watch.elapsed_s());
  // Judging takes longer where the oracle does, by several of its calls.
  if (timing.aim_s > 0)
    timing.aim_s = std::max(kLeastAimS, timing.aim_s - 7 * reference_seconds(op, scenario.init, scenario.workload));
  result.cold = timing.cold;
  double observed_s = 0;
  timing.between_launches = [&](int calls) {
    if (observed_s >= kObserveS) return;
    SampleCost cost = sample_cost(scenario, calls);
    floors_.floor(cost, scenario.workload.dtype, timing.cold);  // measures rates that were not needed before
    Stopwatch observing;
    floors_.observe(cost, scenario.workload.dtype, timing.cold);
    observed_s += observing.elapsed_s();
  };
  result.timing = time_pairs(op, scenario.init, scenario.workload, library, timing,
                             [&](double done) { progress(fmt::format("timing {:.0f} %", 100 * done)); },
                             {&judge, std::move(sides)});
  if (result.timing->failure) {
    refuse(result, result.timing->failure->verdict, result.timing->failure->sentence);
  } else {
    hold_against_floor(result);
  }
  if (options.other_cache_state && result.passed()) {
    progress(timing.cold ? "timing warm" : "timing cold");
    timing.cold = !timing.cold;
    timing.between_launches = nullptr;
    timing.pairs = std::min(timing.pairs, kPairsBesides);
    timing.launches = std::min(timing.launches, 2);
    timing.sample_on_s = 0;
    timing.budget_s = std::max(1.0, options.timeout_s - watch.elapsed_s());
    result.other_timing =
        time_pairs(op, scenario.init, scenario.workload, library, timing, [](double) {}, {&judge, nullptr});
    if (const std::optional<Failure>& failure = result.other_timing->failure)
      refuse(result, failure->verdict, failure->sentence);
  }
  result.seconds = watch.elapsed_s();
  return result;
}

void KernelBench::hold_against_floor(KernelResult& result) {
  TimingResult& timing = *result.timing;
  const std::string lost = device_ == kCpu ? lost_in_exchange(timing) : "";
  if (!lost.empty()) {
    timing.paired.invalid = lost;
    timing.paired.verdict = SpeedVerdict::kUnresolved;
  }
  const DType dtype = result.scenario.workload.dtype;
  const SampleCost cost = sample_cost(result.scenario, timing.calls_per_sample);
  floors_.observe(cost, dtype, result.cold);
  result.floor = floors_.floor(cost, dtype, result.cold);
  if (!lost.empty()) return;  // such times prove nothing, not even that they are impossible
  FloorVerdict verdict = fk::hold_against_floor(timing, result.cost, result.floor);
  if (verdict.doubtful()) {
    result.floor = floors_.floor_again(cost, dtype, result.cold);
    verdict = fk::hold_against_floor(timing, result.cost, result.floor);
  }
  result.floor_note = verdict.note;
  if (verdict.kind == FloorVerdict::Kind::kImpossibleTime) refuse(result, Verdict::kImpossibleTime, verdict.sentence);
  if (verdict.kind == FloorVerdict::Kind::kNotRanked && timing.paired.invalid.empty()) {
    timing.paired.invalid = verdict.sentence;
    timing.paired.verdict = SpeedVerdict::kUnresolved;
  }
}

std::string explain(const KernelResult& r) {
  const TimingResult* t = r.timing && !r.timing->failure && r.timing->paired.candidate.count > 0 ? &*r.timing : nullptr;
  double flops = r.cost.matrix_flops + r.cost.vector_flops;
  std::string text = fmt::format("{} {}: at least {:.3f} MB moved and {:.3f} MFLOP done ({:.2f} FLOP a byte).\n",
                                 r.scenario.op, r.scenario.name, r.cost.bytes() * 1e-6, flops * 1e-6,
                                 r.cost.bytes() > 0 ? flops / r.cost.bytes() : 0);
  if (t == nullptr)
    return text +
           fmt::format("  Not timed: {}\n", r.sentence.empty() && r.timing ? r.timing->paired.invalid : r.sentence);
  double took = t->paired.candidate.median * 1e-9;
  bool by_memory = r.floor.bytes_s() >= r.floor.flops_s;
  text += fmt::format("  Floor {:.2f} us, set by {}; the candidate takes {:.2f} us, {:.0f} % of the floor.\n",
                      r.floor.seconds * 1e6, by_memory ? "memory" : "arithmetic", took * 1e6, 100 * r.of_floor());
  if (!r.floor_note.empty()) text += fmt::format("  {}\n", r.floor_note);
  text +=
      fmt::format("  Read {:.1f} GB/s and wrote {:.1f} GB/s (here at most {:.1f} and {:.1f} GB/s); {:.1f} GFLOP/s.\n",
                  r.cost.read_bytes / took * 1e-9, r.cost.written_bytes / took * 1e-9, r.floor.read_bytes_per_s * 1e-9,
                  r.floor.written_bytes_per_s * 1e-9, flops / took * 1e-9);
  if (r.other_timing && !r.other_timing->failure && r.other_timing->paired.candidate.count > 0) {
    const PairedResult &cold = (r.cold ? t : &*r.other_timing)->paired, &warm = (r.cold ? &*r.other_timing : t)->paired;
    double slower = cold.candidate.median / warm.candidate.median;
    text += fmt::format("  Cold {:.2f} us (baseline {:.2f} us), warm {:.2f} us (baseline {:.2f} us): {}.\n",
                        cold.candidate.median * 1e-3, cold.baseline.median * 1e-3, warm.candidate.median * 1e-3,
                        warm.baseline.median * 1e-3,
                        slower > 1.2 ? fmt::format("fetching its data from memory makes it {:.1f} times slower", slower)
                                     : "cold or warm caches make little difference");
  }
  if (r.other_timing && !r.other_timing->failure && r.other_timing->paired.candidate.count == 0)
    text += fmt::format("  {} caches were not timed: {}\n", r.cold ? "Warm" : "Cold", r.other_timing->paired.invalid);
  text +=
      fmt::format("  Set-up (prepare) {:.2f} ms; peak memory of the process {:.0f} MiB, the baseline's {:.0f} MiB.\n",
                  static_cast<double>(t->prepare_ns) * 1e-6, static_cast<double>(t->candidate_peak_kib) / 1024,
                  static_cast<double>(t->baseline_peak_kib) / 1024);
  if (t->clock_mhz > 0)
    text += fmt::format("  Multiprocessors at {:.0f} MHz; {}.\n", t->clock_mhz,
                        t->held ? "launches are not in these times"
                                : "it waits for the GPU inside forward, so its launches are in these times");
  if (r.of_floor() > 0.8)
    text += "  It is near the floor: only moving less data (fusing with a neighbour) can help.\n";
  else if (t->clock_mhz > 0)
    text += fmt::format("  `fastkernels profile --device cuda --target {} --scenario {}` shows what it waits for.\n",
                        r.scenario.op, r.scenario.name);
  else if (took < 5e-6)
    text += "  A call of a few microseconds is mostly its overhead: look at waking threads and at set-up per call.\n";
  else if (by_memory)
    text +=
        "  Look first at: vector loads and stores, passes over the same data, threads that share the rows evenly.\n";
  else if (r.cost.matrix_flops > 0)
    text +=
        "  Look first at: the matrix or dot-product instructions of this CPU, blocking for its registers and caches.\n";
  else
    text +=
        "  Look first at: the widest vector instructions of this CPU, conversions, divisions, and threads for rows.\n";
  return text;
}

}  // namespace fk
