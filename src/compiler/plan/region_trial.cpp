#include "compiler/plan/region_trial.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <functional>
#include <map>
#include <optional>

#include "compiler/plan/host_copy.h"
#include "compiler/plan/region_memory.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "core/json.h"
#include "core/rng.h"
#include "measure/paired.h"
#include "measure/timer.h"
#include "ops/algebra/evaluate.h"
#include "validate/compare.h"

namespace fk {
namespace {

constexpr int64_t kCheckedRows[] = {1, 3, 17};
constexpr double kSampleNs = 60e3;  // calls of one sample take at least this long
constexpr size_t kLaunches = 5, kPairs = 16;
constexpr double kMostControlOff = 0.05;

std::vector<algebra::Values> meant(const GraphBody& flat, const Region& region, const BatchSizes& sizes,
                                   const RegionMemory& memory) {
  RegionPrograms programs(flat, sizes);
  RegionProgram program = programs.of(region);
  if (!program.refusal.empty()) throw Error("{}", program.refusal);
  std::map<std::string, algebra::Expr> by_name;
  for (const algebra::NamedExpr& r : RegionPrograms::meaning(program)) by_name[r.name] = r.expr;
  std::vector<algebra::Expr> results;
  for (size_t i = 0; i < region.outputs.size(); ++i) results.push_back(by_name.at(fmt::format("y{}", i)));
  algebra::Environment environment;
  environment.input = [&](const algebra::Head& input) {
    return algebra::load_values(memory.host_inputs()[static_cast<size_t>(std::stoi(input.name.substr(1)))]);
  };
  return algebra::evaluate(results, environment);
}

Context context_on(Device device, ThreadPool& pool, Arena& arena) {
  Context ctx{.pool = pool, .arena = arena};
  if (device != kCpu) ctx.stream = device_runtime(device).stream();
  return ctx;
}

// What is wrong with its results; empty: nothing.
std::string check(const GraphBody& flat, const FoundRegion& found, RegionKernel& kernel, const TrialOptions& options,
                  int64_t rows, uint64_t seed, ThreadPool& pool) {
  const Region& region = found.region;
  const BatchSizes sizes = sizes_with_rows(options.phase, rows);
  RegionMemory ours(flat, found, sizes, seed, options.device), theirs(flat, found, sizes, seed, options.device);
  std::vector<algebra::Values> want = meant(flat, region, sizes, ours);
  Arena arena(options.device);
  Context ctx = context_on(options.device, pool, arena);
  std::vector<Tensor> before;
  for (const View& v : ours.outputs()) before.push_back(host_copy(v));
  Tolerance tolerance = theirs.tolerance();
  theirs.call(ctx);
  ours.poison_outputs();
  if (std::string_view why = kernel.refuse(ours.inputs(), ours.outputs()); !why.empty())
    return fmt::format("it refuses {} rows: {}", rows, why);
  kernel.run(ctx, ours.inputs(), ours.outputs());
  std::vector<View> called = theirs.called();
  for (size_t i = 0; i < called.size(); ++i) {
    const bool state = region.outputs[i].updates >= 0;
    const bool real = dtype_is_float(called[i].dtype());
    Tensor reference(called[i].shape(), real ? DType::kF64 : called[i].dtype());
    algebra::store_values(*want[i], reference.view());
    Tensor baseline = host_copy(called[i]), result = host_copy(ours.outputs()[i]);
    Calibration calibration = calibrate(baseline.view(), reference.view(), tolerance, tolerance);
    if (!calibration.usable)
      return fmt::format(
          "the calls themselves are off by {:.3g} tolerances of what their definitions give, in result {}",
          calibration.baseline_ratio, i);
    View old = before[i].view();
    Comparison compared = compare(result.view(), reference.view(), calibration.bounds, state ? &old : nullptr);
    if (!compared.ok()) return fmt::format("with {} rows, result {}: {}", rows, i, compared.sentence);
  }
  return {};
}

double time_ns(int64_t calls, const auto& body) {
  Stopwatch watch;
  for (int64_t i = 0; i < calls; ++i) body();
  return static_cast<double>(watch.elapsed_ns()) / static_cast<double>(calls);
}

// Nanoseconds of one call, of a sample of either side.
struct TimedSides {
  std::function<double()> calls, kernel;
};

TimedSides sides_on_cpu(RegionMemory& memory, RegionKernel& kernel, Context& ctx) {
  auto calls = [&] { memory.call(ctx); };
  auto run = [&] { kernel.run(ctx, memory.inputs(), memory.outputs()); };
  const double one = std::max(1.0, std::min(time_ns(3, calls), time_ns(3, calls)));
  const auto count = static_cast<int64_t>(std::clamp(kSampleNs / one, 1.0, 1000.0));
  time_ns(count, run);
  return {[=] { return time_ns(count, calls); }, [=] { return time_ns(count, run); }};
}

// As a model runs them: recorded, with many in a row, by the device's clock.
TimedSides sides_on_device(RegionMemory& memory, RegionKernel& kernel, Context& ctx, DeviceRuntime& runtime) {
  constexpr int kRecorded = 32;
  auto recorded = [&](const auto& body) -> std::shared_ptr<RecordedWork> {
    // Kernels are loaded, tuned and given memory by a first call.
    body();
    runtime.synchronize();
    ctx.arena.reset();
    runtime.begin_recording();
    try {
      for (int i = 0; i < kRecorded; ++i) body();
    } catch (...) {
      runtime.abandon_recording();
      throw;
    }
    return runtime.end_recording();
  };
  std::shared_ptr<RecordedWork> calls = recorded([&] { memory.call(ctx); });
  std::shared_ptr<RecordedWork> run = recorded([&] { kernel.run(ctx, memory.inputs(), memory.outputs()); });
  std::shared_ptr<DeviceEvent> begin = runtime.make_event(), end = runtime.make_event();
  auto timed = [begin, end](const std::shared_ptr<RecordedWork>& work) {
    return [=] {
      constexpr double kNsPerDeviceMs = 1e6;
      begin->record();
      work->launch();
      end->record();
      return end->elapsed_ms_since(*begin) * kNsPerDeviceMs / kRecorded;
    };
  };
  TimedSides sides{timed(calls), timed(run)};
  sides.calls();
  sides.kernel();
  return sides;
}

RegionTiming timed(const GraphBody& flat, const FoundRegion& found, RegionKernel& kernel, const TrialOptions& options,
                   int64_t rows, ThreadPool& pool) {
  PairedSamples samples, control;
  std::optional<RegionMemory> made;
  for (size_t launch = 0; launch < kLaunches; ++launch) {
    // On the CPU the place in memory matters. On a device it does not, and making inputs takes longer than all else.
    if (options.device == kCpu || !made)
      made.emplace(flat, found, sizes_with_rows(options.phase, rows), options.seed + launch, options.device);
    RegionMemory& memory = *made;
    Arena arena(options.device);
    Context ctx = context_on(options.device, pool, arena);
    TimedSides sides = options.device == kCpu ? sides_on_cpu(memory, kernel, ctx)
                                              : sides_on_device(memory, kernel, ctx, device_runtime(options.device));
    samples.emplace_back();
    control.emplace_back();
    for (size_t p = 0; p < kPairs; ++p) {
      // In turn, so that neither side is always the first.
      double first = sides.calls(), ours = sides.kernel(), second = sides.calls();
      samples.back().push_back({p % 2 == 0 ? first : second, ours});
      control.back().push_back(p % 2 == 0 ? TimePair{first, second} : TimePair{second, first});
    }
  }
  return timing_of(rows, compare_paired(samples, control, {.seed = options.seed, .most_control_off = kMostControlOff}));
}

}  // namespace

RegionTiming timing_of(int64_t rows, const PairedResult& r) {
  const Interval interval = r.speedup_interval();
  return {rows,
          r.baseline.median,
          r.candidate.median,
          r.speedup(),
          interval.low,
          interval.high,
          r.invalid.empty() ? std::string(speed_verdict_name(r.verdict)) : "INVALID"};
}

TrialResult try_kernel_here(const GraphBody& flat, const FoundRegion& found, RegionKernel& kernel,
                            const TrialOptions& options) {
  TrialResult result;
  ThreadPool pool(options.threads);
  uint64_t seed = options.seed;
  for (int64_t rows : kCheckedRows) {
    result.failure = check(flat, found, kernel, options, rows, seed++, pool);
    if (!result.failure.empty()) return result;
  }
  for (int64_t rows : options.rows) result.timings.push_back(timed(flat, found, kernel, options, rows, pool));
  return result;
}

Json trial_to_json(const TrialResult& result) {
  Json json = {{"failure", result.failure}, {"timings", Json::array()}};
  for (const RegionTiming& t : result.timings)
    json["timings"].push_back({{"rows", t.rows},
                               {"calls_ns", t.calls_ns},
                               {"kernel_ns", t.kernel_ns},
                               {"speedup", t.speedup},
                               {"low", t.low},
                               {"high", t.high},
                               {"verdict", t.verdict}});
  return json;
}

TrialResult trial_from_json(const Json& json) {
  TrialResult result;
  result.failure = json.at("failure").get<std::string>();
  for (const Json& t : json.at("timings"))
    result.timings.push_back({t.at("rows").get<int64_t>(), t.at("calls_ns").get<double>(),
                              t.at("kernel_ns").get<double>(), t.at("speedup").get<double>(), t.at("low").get<double>(),
                              t.at("high").get<double>(), t.at("verdict").get<std::string>()});
  return result;
}

bool TrialResult::wins() const {
  bool faster = false;
  for (const RegionTiming& t : timings) {
    if (t.verdict == "SLOWER" || t.speedup < 1) return false;
    faster = faster || t.verdict == "FASTER";
  }
  return failure.empty() && faster;
}

TrialResult try_kernel(const GraphBody& flat, const FoundRegion& found, RegionKernel& kernel,
                       const TrialOptions& options) {
  int ends[2];
  if (pipe(ends) != 0) throw Error("A trial needs a pipe, and there is none left.");
  pid_t child = fork();
  if (child < 0) throw Error("A trial needs a process of its own, and none can be started.");
  if (child == 0) {
    close(ends[0]);
    std::string text;
    try {
      text = dump_json(trial_to_json(try_kernel_here(flat, found, kernel, options)), -1);
    } catch (const std::exception& e) {
      text = dump_json(trial_to_json({e.what(), {}}), -1);
    }
    for (size_t at = 0; at < text.size();) {
      ssize_t n = write(ends[1], text.data() + at, text.size() - at);
      if (n <= 0) break;
      at += static_cast<size_t>(n);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  Stopwatch watch;
  bool hung = false;
  for (;;) {
    int left = static_cast<int>(options.limit_s * 1000 - watch.elapsed_ns() / 1'000'000);
    pollfd ready{ends[0], POLLIN, 0};
    if (left <= 0 || poll(&ready, 1, left) == 0) {
      hung = true;
      kill(child, SIGKILL);
      break;
    }
    char buffer[4096];
    ssize_t n = read(ends[0], buffer, sizeof buffer);
    if (n <= 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (hung) return {fmt::format("it did not finish within {} s", options.limit_s), {}};
  if (WIFSIGNALED(status)) return {fmt::format("signal {} ended it", strsignal(WTERMSIG(status))), {}};
  if (text.empty()) return {"its process ended without a result", {}};
  return trial_from_json(parse_json(text, "the result of a trial"));
}

}  // namespace fk
