// timing_bench: the accuracy of the pair timer on this machine.
//
//   timing_bench aa [repeats] [pairs] [rows]           errors of a kernel compared with itself
//   timing_bench slow PERCENT [repeats] [pairs] [rows] how often a known slowdown is found
//   timing_bench fast PERCENT [repeats] [pairs] [rows] how often a known gain is found: the baseline is slowed down
//
// With TIMING_BENCH_RAW=FILE every pair is written there: run, launch, side ("candidate" or "control"), reason of a
// drop, both times in ns.
//
// The kernel is an RMSNorm over 200 rows, unless told otherwise. A slowdown of p percent is a wait of p percent of the
// time since the call began, after every eighth row. One wait at the end of a call costs more than it lasts: 2 to
// 5 us cost a Neoverse-V1 machine up to 1.6 us more.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "bench/kernels/pair_timer.h"
#include "candidate/compile.h"
#include "core/error.h"
#include "measure/statistics.h"

namespace fk {
namespace {

constexpr std::string_view kSource = R"(
#include <fastkernels/candidate.h>
#include <math.h>
// Not known to the compiler, so that both sides have the same code.
static volatile double slower_by = SLOWER_BY;
static volatile uint64_t used = 1;
static uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  uint64_t t;
  asm volatile("mrs %0, cntvct_el0" : "=r"(t));
  return t;
#endif
}
class RMSNorm : public fk::RMSNorm {
 public:
  using fk::RMSNorm::RMSNorm;
  void forward(fk::Context&, fk::View x, fk::OptView, fk::View out, fk::OptView) override {
    uint64_t start = ticks(), waited = 0, chain = used;
    for (int64_t t = 0; t < x.size(0); ++t) {
      row(x, out, t);
      if (t % 8 != 7) continue;
      uint64_t now = ticks(), wanted = uint64_t(double(now - start - waited) * slower_by);
      if (wanted <= waited) continue;
      uint64_t until = now + wanted - waited, end = now;
      for (; end < until; end = ticks()) chain = chain * 6364136223846793005u + 1442695040888963407u;
      waited += end - now;
    }
    used = chain;
  }
  __attribute__((noinline)) void row(fk::View x, fk::View out, int64_t t) {
    const float *in = x.row<float>(t), *w = weight("weight").ptr<float>();
    float* to = out.row<float>(t);
    float sum = 0;
    int64_t D = init_.hidden_size;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < D; ++i) sum += in[i] * in[i];
    float scale = 1 / sqrtf(sum / float(D) + float(init_.eps));
    for (int64_t i = 0; i < D; ++i) to[i] = in[i] * scale * w[i];
  }
};
FK_CANDIDATE(RMSNorm)
)";

std::string compile(double slower_by) {
  namespace fs = std::filesystem;
  const OperatorInfo& op = Registry::instance().at("rms_norm");
  fs::path folder = fs::temp_directory_path() / fmt::format("timing-bench-{}", getpid());
  fs::create_directories(folder);
  fs::path path = folder / "rms_norm.cpp";
  std::ofstream(path) << kSource;
  CompileOptions options;
  options.cxxflags = {"-fopenmp-simd", "-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math",
                      fmt::format("-DSLOWER_BY={}", slower_by)};
  CompileResult result = compile_candidate({&op, path}, options);
  fs::remove_all(folder);
  if (result.failure) throw Error("{}\n{}", result.failure->sentence, result.log);
  return result.so_path;
}

TimingResult once(const std::string& baseline, const std::string& candidate, int pairs, int rows, uint64_t seed) {
  const OperatorInfo& op = Registry::instance().at("rms_norm");
  Fields init = op.default_init();
  for (Field& f : init) {
    if (f.name == "hidden_size") f.value = int64_t{2048};
    if (f.name == "dtype") f.value = std::string("f32");
  }
  Workload workload = Workload::tokens(rows);
  workload.dtype = DType::kF32;
  TimingOptions options;
  options.pairs = pairs;
  options.sample_on_s = 2;  // as `kernels` does
  if (pairs <= 100) options.aim_s = 1.8;  // as `kernels` does; more pairs are not limited
  options.seed = seed;
  options.baseline_library = baseline;
  TimingResult result = time_pairs(op, init, workload, candidate, options, [](double) {});
  if (result.failure) throw Error("{}", result.failure->sentence);
  return result;
}

void write_raw(std::ofstream& to, int repeat, std::string_view side, const PairedSamples& samples) {
  for (size_t launch = 0; launch < samples.size(); ++launch)
    for (const TimePair& pair : samples[launch])
      to << fmt::format("{},{},{},{},{:.0f},{:.0f}\n", repeat, launch, side, drop_reason_name(pair.dropped),
                        pair.baseline_ns, pair.candidate_ns);
}

int run(int argc, char** argv) {
  std::string_view what = argc > 1 ? argv[1] : "";
  double percent = 0;
  int at = 2;
  if ((what == "slow" || what == "fast") && argc > 2) percent = std::atof(argv[at++]);
  if (what != "aa" && ((what != "slow" && what != "fast") || percent <= 0)) {
    fmt::print(stderr, "timing_bench aa [repeats] [pairs] [rows] | slow|fast PERCENT [repeats] [pairs] [rows]\n");
    return 2;
  }
  int repeats = argc > at ? std::atoi(argv[at]) : 20;
  int pairs = argc > at + 1 ? std::atoi(argv[at + 1]) : 100;
  int rows = argc > at + 2 ? std::atoi(argv[at + 2]) : 200;
  std::string baseline = compile(0), candidate = compile(percent / 100);
  if (what == "fast") std::swap(baseline, candidate);
  std::vector<double> errors, controls, calls, hidden, in_a_sample;
  std::array<size_t, kDropReasons> dropped{};
  std::ofstream raw;
  if (const char* path = std::getenv("TIMING_BENCH_RAW")) raw.open(path);
  int found = 0, same = 0, wrong = 0, ranked = 0, covered = 0, invalid = 0;
  double truth = std::log1p(percent / 100) * (what == "fast" ? 1 : -1);
  for (int i = 0; i < repeats; ++i) {
    TimingResult r = once(baseline, candidate, pairs, rows, static_cast<uint64_t>(i) + 1);
    const PairedResult& p = r.paired;
    if (raw.is_open()) {
      write_raw(raw, i, "candidate", r.samples);
      write_raw(raw, i, "control", r.control);
    }
    errors.push_back(std::abs(p.log_ratio - truth));
    controls.push_back(p.control_error);
    calls.push_back(p.candidate.median);
    hidden.push_back(r.could_hide_ns);
    in_a_sample.push_back(r.calls_per_sample);
    for (size_t reason = 0; reason < kDropReasons; ++reason) dropped[reason] += p.dropped[reason];
    found += p.direction() < 0 ? 1 : 0;
    wrong += p.direction() > 0 ? 1 : 0;
    same += p.verdict == SpeedVerdict::kSame ? 1 : 0;
    ranked += p.verdict == SpeedVerdict::kFaster || p.verdict == SpeedVerdict::kSlower ? 1 : 0;
    invalid += p.invalid.empty() ? 0 : 1;
    covered += p.log_interval.low <= truth && truth <= p.log_interval.high ? 1 : 0;
  }
  fmt::print(
      "{} {:.1f} %: {} repeats of {} pairs; error of the ratio median {:.2f} %, p95 {:.2f} %, max {:.2f} %; "
      "control p95 {:.2f} %; said slower {}, faster {}, by more than 1 % {}, SAME {}; interval holds the truth {}; "
      "invalid {}\n",
      what, percent, repeats, pairs, 100 * quantile(errors, 0.5), 100 * quantile(errors, 0.95),
      100 * quantile(errors, 1), 100 * quantile(controls, 0.95), found, wrong, ranked, same, covered, invalid);
  fmt::print("  a call takes {:.1f} us and could hide {:.2f} us; {} calls a sample\n", median(calls) * 1e-3,
             median(hidden) * 1e-3, median(in_a_sample));
  fmt::print("  pairs:");
  for (size_t reason = 0; reason < kDropReasons; ++reason)
    fmt::print(" {} {}{}", drop_reason_name(static_cast<Dropped>(reason)), dropped[reason],
               reason + 1 < kDropReasons ? "," : "\n");
  return 0;
}

}  // namespace
}  // namespace fk

int main(int argc, char** argv) {
  try {
    return fk::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
