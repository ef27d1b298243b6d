#include "compiler/plan/region_trial.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>

#include "compiler/codegen/cuda_product.h"
#include "compiler/plan/region_check.h"
#include "compiler/plan/region_memory.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "core/json.h"
#include "measure/timer.h"

namespace fk {
namespace {

constexpr int64_t kCheckedRows[] = {1, 3, 17};
constexpr double kSampleNs = 60e3;  // calls of one sample take at least this long
constexpr size_t kLaunches = 5, kLeastPairs = 3, kPairs = 16;
constexpr double kMostControlOff = 0.05;

constexpr std::array<std::string_view, 8> kEndTexts = {"",        "wrong",      "the calls are off", "did not finish",
                                                       "crashed", "was killed", "not compiled",      "failed"};

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
  // Either side may take far longer than the other one.
  auto count_of = [](const auto& body) {
    double one = time_ns(1, body);
    if (one < kSampleNs) one = std::max(1.0, std::min(time_ns(3, body), time_ns(3, body)));
    return static_cast<int64_t>(std::clamp(kSampleNs / one, 1.0, 1000.0));
  };
  const int64_t of_calls = count_of(calls), of_kernel = count_of(run);
  return {[=] { return time_ns(of_calls, calls); }, [=] { return time_ns(of_kernel, run); }};
}

// As a model runs them: recorded, with many in a row, by the device's clock.
// `memories` take turns, so that weights come from memory as those of a model do, and not from a cache.
using Memories = std::vector<std::unique_ptr<RegionMemory>>;
std::function<double()> timed_on_device(const std::function<void(RegionMemory&)>& body, const Memories& memories,
                                        Context& ctx, DeviceRuntime& runtime) {
  constexpr size_t kRecorded = 32;
  // Kernels are loaded, tuned and given memory by a first call.
  for (const auto& memory : memories) body(*memory);
  runtime.synchronize();
  ctx.arena.reset();
  runtime.begin_recording();
  try {
    for (size_t i = 0; i < kRecorded; ++i) body(*memories[i % memories.size()]);
  } catch (...) {
    runtime.abandon_recording();
    throw;
  }
  std::shared_ptr<RecordedWork> work = runtime.end_recording();
  std::shared_ptr<DeviceEvent> begin = runtime.make_event(), end = runtime.make_event();
  auto timed = [=] {
    constexpr double kNsPerDeviceMs = 1e6;
    begin->record();
    work->launch();
    end->record();
    return end->elapsed_ms_since(*begin) * kNsPerDeviceMs / kRecorded;
  };
  timed();
  return timed;
}

TimedSides sides_on_device(const Memories& memories, RegionKernel& kernel, Context& ctx, DeviceRuntime& runtime) {
  auto calls = [&](RegionMemory& memory) { memory.call(ctx); };
  auto run = [&](RegionMemory& memory) { kernel.run(ctx, memory.inputs(), memory.outputs()); };
  return {timed_on_device(calls, memories, ctx, runtime), timed_on_device(run, memories, ctx, runtime)};
}

// With products on a device: as many as exceed its caches, but few.
size_t count_memories(const FoundRegion& found, Device device) {
  constexpr int64_t kBeyondCaches = int64_t{128} << 20, kMost = 8;
  if (found.products == nullptr || device == kCpu) return 1;
  int64_t bytes = 1;
  for (const Product& p : found.products->products)
    bytes += p.features * p.length * static_cast<int64_t>(dtype_size(p.dtype));
  return static_cast<size_t>(std::clamp<int64_t>(kBeyondCaches / bytes + 1, 1, kMost));
}
Memories make_memories(const GraphBody& flat, const FoundRegion& found, const TrialOptions& options, int64_t rows,
                       uint64_t seed) {
  Memories memories;
  for (size_t i = 0; i < count_memories(found, options.device); ++i)
    memories.push_back(std::make_unique<RegionMemory>(flat, found, trial_sizes(found, options.phase, rows, true),
                                                      seed + i, options.device));
  return memories;
}

// How often sides are timed: short calls as often as helps, long ones as the time allows.
struct Repetitions {
  size_t launches = kLaunches, pairs = kPairs;

  // `launch_ns`: to make inputs and warm up.
  static Repetitions within(double ns, double launch_ns, double pair_ns) {
    Repetitions r;
    const double least = launch_ns + kLeastPairs * pair_ns;
    r.launches = std::clamp(static_cast<size_t>(ns / std::max(least, 1.0)), size_t{1}, kLaunches);
    const double left = ns / static_cast<double>(r.launches) - launch_ns;
    r.pairs = static_cast<size_t>(std::clamp(left / std::max(pair_ns, 1.0), double{kLeastPairs}, double{kPairs}));
    return r;
  }
};

RegionTiming timed(const GraphBody& flat, const FoundRegion& found, RegionKernel& kernel, const TrialOptions& options,
                   int64_t rows, ThreadPool& pool) {
  PairedSamples samples, control;
  Memories made;
  Repetitions repeat;
  for (size_t launch = 0; launch < repeat.launches; ++launch) {
    Stopwatch making;
    // On the CPU the place in memory matters. On a device it does not, and making inputs takes longer than all else.
    if (options.device == kCpu || made.empty()) made = make_memories(flat, found, options, rows, options.seed + launch);
    Arena arena(options.device);
    Context ctx = context_on(options.device, pool, arena);
    TimedSides sides = options.device == kCpu ? sides_on_cpu(*made[0], kernel, ctx)
                                              : sides_on_device(made, kernel, ctx, device_runtime(options.device));
    const auto made_ns = static_cast<double>(making.elapsed_ns());
    samples.emplace_back();
    control.emplace_back();
    for (size_t p = 0; p < repeat.pairs; ++p) {
      Stopwatch pair;
      // In turn, so that neither side is always the first.
      double first = sides.calls(), ours = sides.kernel(), second = sides.calls();
      samples.back().push_back({p % 2 == 0 ? first : second, ours});
      control.back().push_back(p % 2 == 0 ? TimePair{first, second} : TimePair{second, first});
      if (launch == 0 && p == 0)
        repeat = Repetitions::within(options.timing_s * 1e9, made_ns, static_cast<double>(pair.elapsed_ns()));
    }
  }
  return timing_of(rows, samples, control, options.seed);
}

// Of the cuts in `among` the fastest, by a few samples each; their times are added to the result.
int fastest_cut(const GraphBody& flat, const FoundRegion& found, CutKernel& kernel, const std::vector<int>& among,
                const TrialOptions& options, int64_t rows, ThreadPool& pool, TrialResult& result) {
  constexpr int kSamples = 5;
  Memories memories = make_memories(flat, found, options, rows, options.seed);
  Arena arena(options.device);
  Context ctx = context_on(options.device, pool, arena);
  auto run = [&](RegionMemory& memory) { kernel.run(ctx, memory.inputs(), memory.outputs()); };
  int best = CutKernel::kNoCut;
  double best_ns = 0;
  for (int cut : among) {
    kernel.use(cut, cut);
    std::function<double()> sample = [&] { return time_ns(1, [&] { run(*memories[0]); }); };
    if (options.device != kCpu) sample = timed_on_device(run, memories, ctx, device_runtime(options.device));
    double least = sample();
    for (int k = 1; k < kSamples; ++k) least = std::min(least, sample());
    result.cuts.push_back({cut, rows, least});
    if (best == CutKernel::kNoCut || least < best_ns) best = cut, best_ns = least;
  }
  return best;
}

// A kernel with products: every cut is checked; of those that are right the fastest for one and for several rows are
// timed against the calls.
TrialResult try_cuts(const GraphBody& flat, const FoundRegion& found, CutKernel& kernel, const TrialOptions& options,
                     ThreadPool& pool) {
  TrialResult result;
  const std::span<const ProductCut> cuts = product_cuts();
  std::vector<int> one, several;
  for (size_t k = 0; k < cuts.size(); ++k)
    if (!cuts[k].several || kernel.most_rows() > 1) (cuts[k].several ? several : one).push_back(static_cast<int>(k));
  uint64_t seed = options.seed;
  auto check_at = [&](int64_t rows, std::vector<int>& among) {
    if (among.empty()) return;
    RegionCheck check(flat, found, options.phase, rows, seed++, options.device, pool);
    std::erase_if(among, [&](int cut) {
      kernel.use(cut, cut);
      std::string wrong;
      try {
        wrong = check.run(kernel);
      } catch (const Error&) {
        // A block of this device has too little shared memory for so many rows.
        if (rows == 1) throw;
        return true;
      }
      if (!wrong.empty() && result.failure.empty())
        result = failed_trial(check.end(), fmt::format("{}: {}", cuts[static_cast<size_t>(cut)].text(), wrong));
      return !wrong.empty();
    });
  };
  check_at(1, one);
  if (kernel.most_rows() > 3) check_at(3, several);
  check_at(kernel.most_rows(), several);
  // A wrong cut says that the kernel is not understood: none of them is used.
  if (!result.failure.empty()) return result;
  result.one = one.front();
  result.several = several.empty() ? CutKernel::kNoCut : several.front();
  for (int64_t wanted : options.rows) {
    const int64_t rows = std::min(wanted, kernel.most_rows());
    const std::vector<int>& among = rows == 1 ? one : several;
    if (among.empty() || (rows == 1 && wanted > 1)) continue;
    const int best = fastest_cut(flat, found, kernel, among, options, rows, pool, result);
    (rows == 1 ? result.one : result.several) = best;
    kernel.use(best, best);
    result.timings.push_back(timed(flat, found, kernel, options, rows, pool));
  }
  kernel.use(result.one, result.several);
  return result;
}

}  // namespace

RegionTiming timing_of(int64_t rows, const PairedSamples& samples, const PairedSamples& control, uint64_t seed) {
  const PairedResult r = compare_paired(
      samples, control, {.seed = seed, .most_control_off = kMostControlOff, .for_other_launches = false});
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
  if (auto* cuts = dynamic_cast<CutKernel*>(&kernel)) return try_cuts(flat, found, *cuts, options, pool);
  uint64_t seed = options.seed;
  for (int64_t rows : kCheckedRows) {
    RegionCheck check(flat, found, options.phase, rows, seed++, options.device, pool);
    if (std::string failure = check.run(kernel); !failure.empty()) return failed_trial(check.end(), std::move(failure));
  }
  for (int64_t rows : options.rows) result.timings.push_back(timed(flat, found, kernel, options, rows, pool));
  return result;
}

std::string_view trial_end_text(TrialEnd end) { return kEndTexts[static_cast<size_t>(end)]; }

TrialResult failed_trial(TrialEnd end, std::string why) {
  TrialResult result;
  result.failure = std::move(why);
  result.end = end;
  return result;
}

Json trial_to_json(const TrialResult& result) {
  Json json = {{"failure", result.failure}, {"end", trial_end_text(result.end)}, {"timings", Json::array()}};
  for (const RegionTiming& t : result.timings)
    json["timings"].push_back({{"rows", t.rows},
                               {"calls_ns", t.calls_ns},
                               {"kernel_ns", t.kernel_ns},
                               {"speedup", t.speedup},
                               {"low", t.low},
                               {"high", t.high},
                               {"verdict", t.verdict}});
  if (result.one == CutKernel::kNoCut) return json;
  json.update({{"one", result.one}, {"several", result.several}, {"cuts", Json::array()}});
  for (const CutTime& c : result.cuts) json["cuts"].push_back({{"cut", c.cut}, {"rows", c.rows}, {"ns", c.ns}});
  return json;
}

TrialResult trial_from_json(const Json& json) {
  TrialResult result;
  result.failure = json.at("failure").get<std::string>();
  auto end = std::find(kEndTexts.begin(), kEndTexts.end(), json.at("end").get<std::string>());
  if (end == kEndTexts.end()) throw Error("{} is no end of a trial.", json.at("end").dump());
  result.end = static_cast<TrialEnd>(end - kEndTexts.begin());
  for (const Json& t : json.at("timings"))
    result.timings.push_back({t.at("rows").get<int64_t>(), t.at("calls_ns").get<double>(),
                              t.at("kernel_ns").get<double>(), t.at("speedup").get<double>(), t.at("low").get<double>(),
                              t.at("high").get<double>(), t.at("verdict").get<std::string>()});
  if (!json.contains("one")) return result;
  result.one = json.at("one").get<int>();
  result.several = json.at("several").get<int>();
  for (const Json& c : json.at("cuts"))
    result.cuts.push_back({c.at("cut").get<int>(), c.at("rows").get<int64_t>(), c.at("ns").get<double>()});
  return result;
}

bool TrialResult::lasts() const {
  if (end != TrialEnd::kRight && end != TrialEnd::kWrong && end != TrialEnd::kCallsOff && end != TrialEnd::kCrashed)
    return false;
  return std::none_of(timings.begin(), timings.end(), [](const RegionTiming& t) { return t.verdict == "INVALID"; });
}

bool TrialResult::wins() const {
  bool faster = false;
  for (const RegionTiming& t : timings) {
    if (t.verdict == "SLOWER" || t.speedup < 1) return false;
    faster = faster || t.verdict == "FASTER";
  }
  return failure.empty() && faster;
}

TrialResult unfinished_trial(int limit_s) {
  return failed_trial(TrialEnd::kUnfinished, fmt::format("it did not finish within {} s", limit_s));
}

TrialResult ended_trial(int status) {
  if (!WIFSIGNALED(status)) return failed_trial(TrialEnd::kFailed, "its process ended without a result");
  const int signal = WTERMSIG(status);
  // What a kernel cannot cause, or does not: the system lacks memory, or somebody ends processes.
  const bool others = signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
  return failed_trial(others ? TrialEnd::kKilled : TrialEnd::kCrashed,
                      fmt::format("signal {} ended it", strsignal(signal)));
}

TrialResult try_kernel(const GraphBody& flat, const FoundRegion& found, RegionKernel& kernel,
                       const TrialOptions& options) {
  int ends[2];
  if (pipe(ends) != 0) throw Error("A trial needs a pipe, and there is none left.");
  const pid_t parent = getpid();
  pid_t child = fork();
  if (child < 0) throw Error("A trial needs a process of its own, and none can be started.");
  if (child == 0) {
    // A trial does not outlive who waits for it, however that ends.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    close(ends[0]);
    std::string text;
    try {
      text = dump_json(trial_to_json(try_kernel_here(flat, found, kernel, options)), -1);
    } catch (const std::exception& e) {
      text = dump_json(trial_to_json(failed_trial(TrialEnd::kFailed, e.what())), -1);
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
  if (hung) return unfinished_trial(options.limit_s);
  if (WIFSIGNALED(status) || text.empty()) return ended_trial(status);
  return trial_from_json(parse_json(text, "the result of a trial"));
}

}  // namespace fk
