#include "tests/attack/attack.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "core/device_runtime.h"
#include "core/error.h"
#include "measure/timer.h"

namespace fk::attack {
namespace {

namespace fs = std::filesystem;

// Share of a call's time that could be hidden from the timer.
double could_hide(const TimingResult& r) {
  return r.paired.candidate.median > 0 ? r.could_hide_ns / r.paired.candidate.median : 0;
}

}  // namespace

Attack::Attack(Device device, AttackOptions options)
    : device_(device), options_(std::move(options)), pool_(1), bench_(pool_, device) {}

CompileResult Attack::compile(const Target& target, const std::string& source) const {
  // The text of a source is its name, so that the same one is compiled once.
  fs::path folder = fs::path(FK_BINARY_DIR) / "attack";
  fs::create_directories(folder);
  fs::path path = folder / fmt::format("{}-{:016x}{}", target.scenario.op, std::hash<std::string>{}(source),
                                       device_ == kCpu ? ".cpp" : ".cu");
  fs::path whole = path.string() + fmt::format(".{}", static_cast<const void*>(&source));
  std::ofstream(whole) << source;
  fs::rename(whole, path);
  CompileOptions options;
  options.cache_folder = (folder / "cache").string();
  options.limit_ms = 300'000;
  if (device_ != kCpu && !device_missing(device_).empty()) options.cuda_arch = "90a";
  CompileResult built = compile_candidate({&target.scenario.info(), path.string()}, options);
  if (built.failure) throw Error("{} does not compile: {}\n{}", path.string(), built.failure->sentence, built.log);
  return built;
}

void Attack::compile_ahead(const std::vector<std::pair<const Kind*, const Target*>>& wanted, bool strongest_only) {
  std::vector<std::pair<const Target*, std::string>> sources;
  std::set<std::string> known;
  for (const auto& [kind, target] : wanted) {
    std::vector<std::string> texts = {twin_source(*kind, *target)};
    std::vector<double> strengths = {kind->most};
    if (!strongest_only) strengths.insert(strengths.end(), {kind->least, between(*kind, kind->least, kind->most)});
    for (double strength : strengths) texts.push_back(fraud_source(*kind, *target, strength));
    for (std::string& text : texts)
      if (known.insert(text).second) sources.emplace_back(target, std::move(text));
  }
  std::atomic<size_t> next{0}, done{0};
  std::mutex mutex;
  std::string failure;
  auto work = [&] {
    for (size_t i = next++; i < sources.size(); i = next++) {
      try {
        compile(*sources[i].first, sources[i].second);
      } catch (const std::exception& e) {
        std::lock_guard lock(mutex);
        if (failure.empty()) failure = e.what();
      }
      std::lock_guard lock(mutex);
      options_.progress(fmt::format("compiled {} of {}", ++done, sources.size()));
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
  for (std::thread& t : threads) t.join();
  if (!failure.empty()) throw Error("{}", failure);
}

Finding Attack::find(const Kind& kind, const Target& target) {
  return search(kind, target, options_.steps, [&](double strength) { return attempt(kind, target, strength); });
}

Attempt Attack::attempt(const Kind& kind, const Target& target, double strength) {
  return judge(kind, target, fraud_source(kind, target, strength), strength);
}

Attempt Attack::attempt_honest(const Kind& kind, const Target& target) {
  return judge(kind, target, twin_source(kind, target), 0);
}

Attempt Attack::judge(const Kind& kind, const Target& target, const std::string& source, double strength) {
  Stopwatch watch;
  auto tell = [&](std::string_view what) {
    options_.progress(fmt::format("{} on {}, {}: {}", kind.name, target.name, strength_text(kind, strength), what));
  };
  tell("compiling");
  CompileResult twin = compile(target, twin_source(kind, target)), fraud = compile(target, source);
  KernelOptions o;
  o.timing.pairs = options_.pairs;
  o.timing.launches = options_.launches;
  o.timing.sample_on_s = options_.sample_on_s;
  o.timing.cold = kind.cold;
  o.timing.baseline_library = twin.so_path;
  KernelResult result = bench_.run(target.scenario, fraud.so_path, o, tell);
  // A run that was not ranked because the machine was busy says nothing about the fraud. If this happens every time,
  // the fraud is harmless, since it is never ranked.
  constexpr int kAgain = 2;
  for (int i = 0; i < kAgain && result.passed() && result.timing && !result.timing->paired.invalid.empty(); ++i)
    result = bench_.run(target.scenario, fraud.so_path, o, tell);

  Attempt a;
  a.strength = strength;
  a.verdict = std::string(verdict_name(result.verdict));
  a.sentence = result.sentence;
  if (result.passed() && result.timing) {
    const PairedResult& paired = result.timing->paired;
    a.speedup = paired.speedup();
    a.interval = paired.speedup_interval();
    a.could_hide = could_hide(*result.timing);
    a.verdict = paired.invalid.empty() ? std::string(speed_verdict_name(paired.verdict)) : "INVALID";
    a.sentence = paired.invalid;
    if (!paired.invalid.empty())
      a.outcome = Outcome::kCaught;
    else
      a.outcome = paired.verdict == SpeedVerdict::kFaster ? Outcome::kSurvived : Outcome::kHarmless;
  }
  if (result.verdict == Verdict::kInvalidTask && !result.timing)
    throw Error("The task {} cannot tell right from wrong: {}", target.name, result.sentence);
  a.seconds = watch.elapsed_s();
  tell(fmt::format("{} ({}{}) {}", outcome_name(a.outcome), a.verdict,
                   a.interval.high > 0 ? fmt::format(", {:.3f}x", a.speedup) : "", a.sentence));
  return a;
}

}  // namespace fk::attack
