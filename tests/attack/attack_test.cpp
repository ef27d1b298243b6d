// Frauds of every class are caught or gain nothing, and the harness itself works.
#include "tests/attack/attack.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "candidate/toolchain.h"
#include "core/device_runtime.h"
#include "tests/attack/report.h"
#include "tests/candidate/together.h"
#include "tests/candidate/work_folder.h"

namespace fk::attack {
namespace {

const Kind& cpu_kind(std::string_view name) { return kind_named(DeviceKind::kCpu, name); }
const Target& cpu_target(std::string_view name) { return target_named(DeviceKind::kCpu, name); }

// Few pairs are enough: the gains of these frauds are large.
AttackOptions quick() {
  AttackOptions o;
  o.pairs = 24;
  o.launches = 3;
  o.sample_on_s = 0;
  o.progress = [](std::string_view what) {
    if (what.find('(') == std::string_view::npos) return;
    fmt::print("{}\n", what);
    std::fflush(stdout);
  };
  return o;
}

Attempt made_up(double strength, double caught_from, double gains_from) {
  Attempt a;
  a.strength = strength;
  a.outcome = strength >= caught_from  ? Outcome::kCaught
              : strength >= gains_from ? Outcome::kSurvived
                                       : Outcome::kHarmless;
  a.interval = {1 + strength / 2, 1 + strength};
  return a;
}

TEST(Search, ComesCloseToTheStrengthThatIsCaught) {
  const Kind& kind = cpu_kind("lazy_rows");
  Finding f = search(kind, cpu_target("rms_norm bf16"), 8, [](double s) { return made_up(s, 0.3, 0.05); });
  ASSERT_NE(f.largest_survivor(), nullptr);
  EXPECT_NEAR(f.largest_survivor()->strength, 0.3, 0.02);
  EXPECT_NEAR(f.weakest_caught()->strength, 0.3, 0.02);
  EXPECT_EQ(f.strongest_caught()->strength, kind.most);
  EXPECT_TRUE(worth_caring(f));
}

TEST(Search, EndsWhereNothingOrEverythingIsCaught) {
  const Kind& kind = cpu_kind("lazy_rows");
  const Target& target = cpu_target("rms_norm bf16");
  Finding none = search(kind, target, 8, [](double s) { return made_up(s, 9, 0.05); });
  EXPECT_EQ(none.attempts.size(), 1u);
  EXPECT_TRUE(worth_caring(none));
  Finding all = search(kind, target, 8, [](double s) { return made_up(s, 0, 0); });
  EXPECT_EQ(all.attempts.size(), 2u);
  EXPECT_FALSE(worth_caring(all));
  EXPECT_EQ(all.largest_survivor(), nullptr);
}

TEST(Search, AGainThatTheTimerDeclaresAsUnseenIsNoSurprise) {
  Finding f = search(cpu_kind("lazy_rows"), cpu_target("rms_norm bf16"), 0, [](double s) {
    Attempt a = made_up(s, 9, 0);
    a.interval = {1.006, 1.02};
    a.could_hide = 0.002;
    return a;
  });
  EXPECT_FALSE(worth_caring(f));
  f.attempts[0].could_hide = 0;
  EXPECT_TRUE(worth_caring(f));
}

TEST(Report, NamesEveryFraudInEveryForm) {
  std::vector<Finding> findings = {
      search(cpu_kind("late_by_us"), cpu_target("linear f32"), 3, [](double s) { return made_up(s, 300, 10); })};
  for (const std::string& text : {to_text(findings), to_markdown(findings), dump_json(to_json(findings))}) {
    EXPECT_NE(text.find("late_by_us"), std::string::npos) << text;
    EXPECT_NE(text.find("linear f32"), std::string::npos) << text;
  }
  EXPECT_NE(to_text(findings).find("1 kinds survive"), std::string::npos) << to_text(findings);
}

// The harness proves something only if honest kernels pass and gain nothing.
TEST(SelfAttack, SlowHonestTwinsPassAndGainNothing) {
  Attack attack(kCpu, quick());
  for (const Target& target : targets(DeviceKind::kCpu)) {
    Attempt a = attack.attempt_honest(cpu_kind("lazy_rows"), target);
    EXPECT_NE(a.outcome, Outcome::kSurvived) << target.name << " " << a.speedup;
    EXPECT_TRUE(a.verdict == "SAME" || a.verdict == "UNRESOLVED" || a.verdict == "INVALID")
        << target.name << ": " << a.verdict << " " << a.sentence;
  }
}

// One fraud of each class, at a strength with a clear gain.
struct Tried {
  const char *kind, *target;
  double strength;
};
constexpr Tried kSmallSet[] = {
    {"lazy_calls", "rms_norm bf16", 0.1},           {"lazy_rows", "softmax f32", 0.1},
    {"partial_reduction", "argmax f32", 0.5},       {"known_statistics", "rms_norm bf16", 1},
    {"fewer_weight_bits", "linear f32", 9},         {"late_woken", "rms_norm bf16", 0.5},
    {"late_at_first", "rms_norm bf16", 7},          {"late_next_call", "rms_norm bf16", 0.5},
    {"early_signal", "silu_and_mul bf16", 0.5},     {"moved_start_time", "rms_norm bf16", 8000},
    {"replay_by_pointer", "silu_and_mul bf16", 0.2}};

TEST(SelfAttack, SlowNoFraudOfTheSmallSetPays) {
  Attack attack(kCpu, quick());
  std::vector<Finding> findings;
  for (const Tried& t : kSmallSet) {
    const Kind& kind = cpu_kind(t.kind);
    const Target& target = cpu_target(t.target);
    findings.push_back({&kind, &target, {attack.attempt(kind, target, t.strength)}});
    EXPECT_FALSE(worth_caring(findings.back())) << t.kind << " on " << t.target << " was ranked faster";
  }
  fmt::print("{}", to_text(findings));
}

TEST(CompiledTogether, SlowTheOneThatDoesNotCompileIsNamed) {
  const OperatorInfo* norm = &Registry::instance().at("rms_norm");
  std::vector<CandidateText> all = {{norm, "first", rms_norm_with("")},
                                    {norm, "second", rms_norm_with("missing();")},
                                    {norm, "third", "#define missing() 0\n" + rms_norm_with("(void)missing();")}};
  std::vector<std::string> errors = compile_errors(all, DeviceKind::kCpu, {});
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_TRUE(errors[0].starts_with("second: ")) << errors[0];
  EXPECT_NE(errors[0].find("missing"), std::string::npos) << errors[0];
  std::erase_if(all, [](const CandidateText& c) { return c.path == "second"; });
  EXPECT_TRUE(compile_errors(all, DeviceKind::kCpu, {}).empty());
}

// The strongest fraud of every kind on each of its targets, and its honest twin.
void expect_all_compile(DeviceKind device) {
  std::vector<CandidateText> all;
  std::set<std::string> known;
  for (const Kind& kind : kinds(device))
    for (const std::string& name : kind.targets) {
      const Target& target = target_named(device, name);
      for (const std::string& text : {twin_source(kind, target), fraud_source(kind, target, kind.most)})
        if (known.insert(text).second)
          all.push_back({&target.scenario.info(), fmt::format("{} on {}", kind.name, name), text});
    }
  CompileOptions options;
  options.limit_ms = 300'000;
  if (device != DeviceKind::kCpu && !device_missing({device, 0}).empty()) options.cuda_arch = "90a";
  for (const std::string& error : compile_errors(all, device, options)) ADD_FAILURE() << error;
}

TEST(SelfAttack, SlowEveryCpuFraudCompiles) { expect_all_compile(DeviceKind::kCpu); }

TEST(SelfAttack, SlowEveryCudaFraudCompiles) {
  if (find_nvcc().empty()) GTEST_SKIP() << "there is no nvcc here, so nothing can compile CUDA";
  expect_all_compile(DeviceKind::kCuda);
}

}  // namespace
}  // namespace fk::attack
