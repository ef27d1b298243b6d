// Where two scores of a softmax are nearly equal, roundings inside an attention block decide which of them wins. An
// honest kernel that rounds elsewhere than the baseline then has another row, and only such rows may differ.
#include "validate/inner_rounding.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/validate/fake_subject.h"
#include "validate/call_check.h"
#include "validate/input_families.h"

namespace fk::validate {
namespace {

// A call of an attention block in bf16 whose scores are in the hundreds.
struct LargeScores {
  explicit LargeScores(uint64_t seed)
      : info(Registry::instance().at("llama_attention")),
        init(with_dtype(info.cases()[0].init, DType::kBF16)),
        workload(info.cases()[0].workload),
        tree(info.build(init, {})),
        baseline(info, init),
        reference(info, init, workload) {
    workload.dtype = DType::kBF16;
    params = make_params(*tree, seed);
    data = std::make_unique<CallData>(make_call_inputs(*tree, workload, seed));
    apply_to_inputs(family_named("scaled x64"), *tree, info.inputs(init, workload), *data, seed);
    EXPECT_FALSE(baseline.bind(params));
    reference.bind(params);
    truth =
        std::make_unique<CallTruth>(*tree, workload, *data, reference, baseline.call(*data, Placement::kNew), false);
  }

  // An honest kernel that rounds what its parts return up or down, and not as the baseline does.
  CallOutcome otherwise_rounded(uint64_t seed) {
    const Expected rounded = reference.compute_rounded(*data, workload.dtype, 1000 + seed);
    CallOutcome outcome = baseline.call(*data, Placement::kNew);
    for (const CallTruth::Item& item : truth->items())
      copy_elements(reference_in(rounded, item), *written_tensor(outcome, item));
    return outcome;
  }

  // The rows of the output that are out of bounds.
  std::vector<bool> wrong_rows(const CallOutcome& outcome) const {
    const CallTruth::Item& out = truth->items().front();
    const std::vector<uint8_t> wrong = wrong_elements(*written_tensor(outcome, out), out.reference, out.bounds);
    std::vector<bool> rows(static_cast<size_t>(out.reference.size(0)));
    for (size_t i = 0; i < wrong.size(); ++i)
      if (wrong[i] != 0) rows[i / static_cast<size_t>(out.reference.size(1))] = true;
    return rows;
  }

  View row(const CallOutcome& outcome, size_t i) const {
    return written_tensor(outcome, truth->items().front())->view().select(0, static_cast<int64_t>(i));
  }

  // An element of the first state that the call leaves as it was.
  int64_t unchanged() const {
    const View &before = data->states[0].view(), &after = truth->expected().states[0].view();
    int64_t i = 0;
    while (get(flat(before), i) != get(flat(after), i)) ++i;
    return i;
  }
  static View flat(const View& v) { return v.reshape({v.numel()}); }

  const OperatorInfo& info;
  Fields init;
  Workload workload;
  std::unique_ptr<Node> tree;
  FakeSubject baseline;
  Reference reference;
  std::vector<Tensor> params;
  std::unique_ptr<CallData> data;
  std::unique_ptr<CallTruth> truth;
};

TEST(InnerRounding, RowsThatRoundingsDecideAreNoErrorsAndOthersAre) {
  int decided = 0;
  for (uint64_t seed = 0; seed < 60 && decided < 5; ++seed) {
    LargeScores call(seed);
    if (!call.truth->unusable().empty()) continue;
    CallOutcome honest = call.otherwise_rounded(seed);
    const std::vector<bool> wrong = call.wrong_rows(honest);
    const auto flipped = static_cast<size_t>(std::find(wrong.begin(), wrong.end(), true) - wrong.begin());
    const auto firm = static_cast<size_t>(std::find(wrong.begin(), wrong.end(), false) - wrong.begin());
    if (flipped == wrong.size() || firm == wrong.size()) continue;
    ++decided;
    EXPECT_FALSE(call.truth->check(honest).fault) << call.truth->check(honest).fault->sentence;

    CallOutcome bad = call.otherwise_rounded(seed);
    each_element(call.row(bad, firm), [](double x, int64_t) { return 1.2 * x; });
    EXPECT_TRUE(call.truth->check(bad).fault) << "a row that no rounding decides";
    bad = call.otherwise_rounded(seed);
    each_element(call.row(bad, flipped), [](double x, int64_t) { return 20 * x; });
    EXPECT_TRUE(call.truth->check(bad).fault) << "farther off than any rounding moves it";
    bad = call.otherwise_rounded(seed);
    each_element(call.row(bad, flipped), [](double, int64_t) { return std::nan(""); });
    EXPECT_TRUE(call.truth->check(bad).fault);
    bad = call.otherwise_rounded(seed);
    each_element(bad.states[0], [&](double x, int64_t i) { return i == call.unchanged() ? x + 1 : x; });
    EXPECT_TRUE(call.truth->check(bad).fault) << "a state that this call does not change";
  }
  EXPECT_GE(decided, 3) << "too few calls had a row that roundings decide";
}

bool rounding_moves(const OperatorInfo& info, const Fields& init, const Workload& workload, const CallData& data,
                    std::span<const Tensor> params) {
  Reference reference(info, init, workload);
  reference.bind(params);
  const Expected plain = reference.compute(data), rounded = reference.compute_rounded(data, DType::kBF16, 7);
  for (size_t i = 0; i < plain.args.size(); ++i) {
    if (!plain.args[i]) continue;
    const View &a = plain.args[i]->view(), &b = rounded.args[i]->view();
    if (std::memcmp(a.data(), b.data(), a.size_bytes()) != 0) return true;
  }
  return false;
}

TEST(InnerRounding, MovesNoOperatorWithoutParts) {
  const OperatorInfo& norm = Registry::instance().at("rms_norm");
  const OperatorInfo::ErasedCase c = norm.cases().front();
  std::unique_ptr<Node> tree = norm.build(c.init, {});
  const CallData data = make_call_inputs(*tree, c.workload, 1);
  EXPECT_FALSE(rounding_moves(norm, c.init, c.workload, data, make_params(*tree, 1)));
}

TEST(InnerRounding, KeepsWhatTheDtypeRepresents) {
  const OperatorInfo& mlp = Registry::instance().at("llama_mlp");
  const OperatorInfo::ErasedCase c = mlp.cases().front();
  std::unique_ptr<Node> tree = mlp.build(c.init, {});
  const std::vector<Tensor> params = make_params(*tree, 1);
  const CallData data = make_call_inputs(*tree, c.workload, 1);
  EXPECT_TRUE(rounding_moves(mlp, c.init, c.workload, data, params));
  // Products are small multiples of 64 now, which silu leaves as they are.
  for (const Tensor& p : params) each_element(p, [](double, int64_t i) { return i % 97 == 0 ? 1 : 0; });
  each_element(*data.given[0], [](double, int64_t) { return 64; });
  EXPECT_FALSE(rounding_moves(mlp, c.init, c.workload, data, params));
}

}  // namespace
}  // namespace fk::validate
