// Honest candidates must pass: every operator of the registry, run by its own baseline and by arithmetic that rounds
// elsewhere.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/validate/fake_subject.h"
#include "validate/judge.h"
#include "validate/reference.h"

namespace fk::validate {
namespace {

// Small shapes and few repeats: what is tested are the bounds on honest kernels, for all operators in seconds.
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

TEST_P(Honest, CandidatesPass) {
  const OperatorInfo& info = *GetParam();
  BuildOptions oracles;
  oracles.oracle = true;
  std::vector<OperatorInfo::ErasedCase> cases = info.cases();
  // Every case in one dtype, a lone case in both; models are slow, and two of theirs say what all do.
  size_t rounds = std::clamp<size_t>(cases.size(), 2, info.level == 4 ? 2 : cases.size() + 1);
  for (size_t i = 0; i < rounds; ++i) {
    const OperatorInfo::ErasedCase& which = cases[i % cases.size()];
    DType dtype = i % 2 == 0 ? DType::kF32 : DType::kBF16;
    Fields init = with_dtype(which.init, dtype);
    Workload workload = which.workload;
    workload.dtype = dtype;
    // Oracles in the dtype judged add up in double and round between the parts of a composition only.
    FakeSubject same(info, init), other(info, init, oracles), baseline(info, init);
    for (FakeSubject* candidate : {&same, &other}) {
      // The first two rounds are the baseline's, the others the oracles'; where there are but two, both have them.
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

INSTANTIATE_TEST_SUITE_P(Registry, Honest, testing::ValuesIn(Registry::instance().operators()),
                         [](const auto& p) { return std::string(p.param->name); });

}  // namespace
}  // namespace fk::validate
