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
        Reference reference(*op, init, workload);
        ASSERT_FALSE(baseline.bind(params));
        reference.bind(params);
        FreshInputs inputs(*tree, contract_inputs(), workload, 11);
        int unusable = 0;
        std::string which;
        for (int call = 0; call < kCalls; ++call) {
          inputs.next(0);
          const CallData& data = inputs.current(0);
          CallTruth truth(*tree, workload, data, reference, baseline.call(data, Placement::kNew), false);
          if (truth.unusable().empty()) continue;
          ++unusable;
          which += fmt::format("{} in call {}: {}; ", inputs.kind(0), call, truth.unusable());
        }
        // How much a block of several kernels enlarges roundings depends on its weights, too (scores of attention), so
        // one of its kinds of inputs may be too much for its tolerance; such a call is left out.
        EXPECT_LE(unusable, op->level == 1 ? 0 : 1)
            << op->name << ", " << c.label << ", " << dtype_name(dtype) << ", " << which;
      }
  }
}

}  // namespace
}  // namespace fk::validate
