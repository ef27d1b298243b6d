// The inputs of timed calls can be used for judging: on every kind of them the baseline keeps its operator's contract.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "bench/kernels/fresh_inputs.h"
#include "tests/validate/fake_subject.h"
#include "validate/call_check.h"

namespace fk::validate {
namespace {

constexpr double kMostSeconds = 0.02;  // of an oracle's call: longer ones test nothing new
constexpr int kCalls = 12;
constexpr int64_t kLeastElements = 16;  // in fewer, all elements may be cancelled sums

TEST(TimedInputs, SlowCanJudge) {
  for (const OperatorInfo* op : Registry::instance().operators()) {
    if (op->level > 3) continue;  // a whole model in bf16 uses its whole tolerance with plain numbers, too
    for (const OperatorInfo::ErasedCase& c : op->cases())
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        Fields init = with_dtype(c.init, dtype);
        Workload workload = c.workload;
        workload.dtype = dtype;
        if (reference_seconds(*op, init, workload) > kMostSeconds) continue;
        std::unique_ptr<Node> tree = op->build(init, {});
        int64_t elements = 0;
        for (const auto& input : op->inputs(init, workload)) elements += input ? input->spec.shape.numel() : 0;
        if (elements < kLeastElements) continue;
        std::vector<Tensor> params = make_params(*tree, 1);
        FakeSubject baseline(*op, init);
        Reference reference(*op, init);
        ASSERT_FALSE(baseline.bind(params));
        reference.bind(params);
        FreshInputs inputs(*tree, contract_inputs(), workload, 11);
        for (int call = 0; call < kCalls; ++call) {
          inputs.next(0);
          const CallData& data = inputs.current(0);
          CallTruth truth(*tree, workload, data, reference, baseline.call(data, Placement::kNew), false);
          EXPECT_EQ(truth.unusable(), "")
              << fmt::format("{}, {}, {}, {} in call {}", op->name, c.label, dtype_name(dtype), inputs.kind(0), call);
        }
      }
  }
}

}  // namespace
}  // namespace fk::validate
