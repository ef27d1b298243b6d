// Honest candidates must pass: every operator of the registry, computed by its own baseline and by code that rounds in
// other places.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/validate/fake_subject.h"
#include "validate/input_families.h"
#include "validate/judge.h"
#include "validate/reference.h"

namespace fk::validate {
namespace {

// Small shapes and few repeats: this tests the bounds on honest kernels, for all operators in seconds.
JudgeOptions quick(uint64_t seed) {
  return {.seed = seed,
          .family_oracle_seconds = 0.0005,
          .full_oracle_seconds = 0.0005,
          .calibration_calls = 2,
          .random_shapes = 1,
          .repeats = 0,
          .draws = 4};
}

class Honest : public testing::TestWithParam<const OperatorInfo*> {};

TEST_P(Honest, SlowCandidatesPass) {
  const OperatorInfo& info = *GetParam();
  BuildOptions oracles;
  oracles.oracle = true;
  std::vector<OperatorInfo::ErasedCase> cases = info.cases();
  // Every case in one dtype, a single case in both; models are slow, and two of their cases are enough.
  size_t rounds = std::clamp<size_t>(cases.size(), 2, info.level == 4 ? 2 : cases.size() + 1);
  for (size_t i = 0; i < rounds; ++i) {
    const OperatorInfo::ErasedCase& which = cases[i % cases.size()];
    DType dtype = i % 2 == 0 ? DType::kF32 : DType::kBF16;
    Fields init = with_dtype(which.init, dtype);
    Workload workload = which.workload;
    workload.dtype = dtype;
    // Oracles in the judged dtype accumulate in double and round only between the parts of a composition.
    FakeSubject same(info, init), other(info, init, oracles), baseline(info, init);
    for (FakeSubject* candidate : {&same, &other}) {
      // The first two rounds test the baseline, the others the oracles; if there are only two, both test both.
      if (candidate == &same ? i >= 2 : i < 2 && (rounds > 2 || info.level == 4)) continue;
      Judgement judgement = judge(info, init, workload, *candidate, baseline, quick(100 + i));
      EXPECT_TRUE(judgement.passed()) << fmt::format("{}, case '{}', {}, {}: {}", info.name, which.label,
                                                     dtype_name(dtype), candidate == &same ? "baseline" : "oracles",
                                                     judgement.sentence);
      EXPECT_GT(judgement.elements, 0);
      EXPECT_GE(judgement.calls, 8);
    }
  }
}

// Large scores amplify the rounding of their sums. The contract allows for it, so inputs x10, x64 and +5 judge
// attention like any others instead of being skipped.
TEST(AttentionTolerance, SlowLeavesNoFamilyOut) {
  for (const char* name : {"flash_attn_prefill", "flash_attn_decode", "attention"}) {
    const OperatorInfo& info = Registry::instance().at(name);
    for (const auto& c : info.cases()) {
      if (c.workload.num_tokens() == 0) continue;
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        Fields init = with_dtype(c.init, dtype);
        Workload workload = c.workload;
        workload.dtype = dtype;
        FakeSubject candidate(info, init), baseline(info, init);
        Judgement judgement = judge(info, init, workload, candidate, baseline, quick(7));
        EXPECT_TRUE(judgement.passed()) << judgement.sentence;
        for (const std::string& note : judgement.notes)
          EXPECT_EQ(note.find("tolerance"), std::string::npos)
              << fmt::format("{}, case '{}', {}: {}", name, c.label, dtype_name(dtype), note);
      }
    }
  }
}

// How much the tolerance grows: hardly on plain random numbers, and never so much that anything passes.
TEST(AttentionTolerance, GrowsWithTheScoresAndNoFurther) {
  const OperatorInfo& info = Registry::instance().at("flash_attn_prefill");
  OperatorInfo::ErasedCase c = info.cases()[1];
  c.workload.dtype = DType::kF32;
  std::unique_ptr<Node> tree = info.build(c.init, {});
  CallData data = make_call_inputs(*tree, c.workload, 3);
  auto of_scale = [&] {
    std::vector<OptView> given;
    for (const auto& t : data.given) given.push_back(t ? OptView(t->view()) : std::nullopt);
    return info.tolerance_on(c.init, DType::kF32, given).of_scale;
  };
  double usual = info.tolerance(c.init, DType::kF32).of_scale;
  EXPECT_LT(of_scale(), 1.5 * usual) << "plain random numbers need hardly more";
  apply_to_inputs(family_named("scaled x10"), *tree, info.inputs(c.init, c.workload), data, 3);
  EXPECT_GT(of_scale(), 3 * usual);
  EXPECT_LT(of_scale(), 2e-3) << "a thousandth of the largest output is no rounding in float";
}

INSTANTIATE_TEST_SUITE_P(Registry, Honest, testing::ValuesIn(Registry::instance().operators()),
                         [](const auto& p) { return std::string(p.param->name); });

}  // namespace
}  // namespace fk::validate
