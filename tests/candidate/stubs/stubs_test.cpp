// Every stub compiles, loads and agrees with the float64 oracle on the operator's own cases, as baselines must: an
// author starts from something that is right.
#include "candidate/stubs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "candidate/swap.h"
#include "tests/candidate/work_folder.h"
#include "tests/conformance/trial.h"

namespace fk {
namespace {

class Stubs : public testing::TestWithParam<const OperatorInfo*> {};

TEST_P(Stubs, AgreeWithTheOracle) {
  const OperatorInfo& op = *GetParam();
  std::optional<std::string> text = stub_text(op);
  ASSERT_TRUE(text.has_value());
  WorkFolder folder;
  swap_in({folder.candidate(std::string(op.name), *text)}, folder.options());
  ThreadPool pool(2);
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (const OperatorInfo::ErasedCase& which : op.cases()) {
      conformance::Problem problem = conformance::make_problem(op, which, dtype);
      // With the composition beside the candidate: its parts name the weights that the candidate is given.
      std::unique_ptr<Node> node = op.build(problem.init, {});
      for (auto placement : {conformance::Placement::kMisaligned, conformance::Placement::kStridedRows}) {
        if (placement == conformance::Placement::kStridedRows && !problem.has_rows()) continue;
        conformance::Verdict verdict = examine(problem, conformance::subject_of(*node), placement, pool);
        EXPECT_EQ(verdict.refusal, "");
        for (const std::string& fault : verdict.faults)
          ADD_FAILURE() << fmt::format("{}, case '{}': {}", dtype_name(dtype), which.label, fault);
      }
      for (const DispatchCount& count : collect_dispatches(*node)) {
        EXPECT_EQ(count.op, op.name);
        EXPECT_EQ(count.implementation, kCandidateName);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, Stubs, testing::ValuesIn(Registry::instance().operators()),
                         [](const auto& p) { return std::string(p.param->name); });

}  // namespace
}  // namespace fk
