// Dispatch of calls: counting, and the errors for invalid calls.
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/memory.h"
#include "ops/l1/rms_norm.h"
#include "ops/op.h"

namespace fk::conformance {
namespace {

testing::AssertionResult says(const std::string& text, std::initializer_list<std::string> parts) {
  for (const std::string& part : parts)
    if (text.find(part) == text.npos)
      return testing::AssertionFailure() << '"' << text << "\" does not say \"" << part << '"';
  return testing::AssertionSuccess();
}

class Dispatch : public testing::Test {
 protected:
  std::string sentence(Node& node, std::vector<OptView> args) {
    try {
      node.call(ctx_, args);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  ThreadPool pool_{1};
  Arena arena_;
  Context ctx_{.pool = pool_, .arena = arena_, .attention = nullptr, .states = {}};
  Builder builder_{BuildOptions{}};
  Tensor weight_{{8}, DType::kF32};
  Tensor x_{{3, 8}, DType::kF32};
  Tensor out_{{3, 8}, DType::kF32};

  Op<RMSNorm> norm(std::string_view path, DType dtype = DType::kF32) {
    Op<RMSNorm> op = builder_.child<RMSNorm>(path, {.hidden_size = 8, .dtype = dtype});
    op.node().bind([&](const std::string&) { return weight_.view(); });
    return op;
  }
};

TEST_F(Dispatch, CountsCallsByImplementationAndSize) {
  Op<RMSNorm> op = norm("norm");
  std::string_view best = op.node().implementations().front()->name;
  auto call = [&](int64_t rows) {
    Tensor x({rows, 8}, DType::kF32);
    op(ctx_, x.view());
  };
  EXPECT_TRUE(collect_dispatches(op.node()).empty());
  for (int64_t rows : {1, 3, 4, 4, 5}) call(rows);
  std::vector<std::pair<int64_t, int64_t>> counts;
  for (const DispatchCount& c : collect_dispatches(op.node())) {
    EXPECT_EQ(c.op, "rms_norm");
    EXPECT_EQ(c.implementation, best);
    counts.emplace_back(c.rows_up_to, c.calls);
  }
  EXPECT_EQ(counts, (std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {4, 3}, {8, 1}}));
}

TEST_F(Dispatch, ARefusedCallGoesToTheNextAndIsCountedThere) {
  Op<RMSNorm> op = norm("norm");
  Tensor weight({8}, DType::kF64), x({2, 8}, DType::kF64);
  Op<RMSNorm> wide = builder_.child<RMSNorm>("wide", {.hidden_size = 8, .dtype = DType::kF64});
  wide.node().bind([&](const std::string&) { return weight.view(); });
  wide(ctx_, x.view());
  std::vector<DispatchCount> counts = collect_dispatches(wide.node());
  ASSERT_EQ(counts.size(), 1u);
  EXPECT_EQ(counts[0].implementation, "oracle");  // nobody else does arithmetic in f64
  Tensor out({2, 8}, DType::kF64);
  EXPECT_EQ(wide.node().refusal(std::vector<OptView>{x.view(), {}, out.view(), {}}), "");
}

TEST_F(Dispatch, ATensorOnAnotherDeviceIsAnErrorThatNamesIt) {
  Op<RMSNorm> op = norm("model.norm");
  View elsewhere(x_.view().data(), x_.view().spec(), Device{DeviceKind::kCuda, 1});
  EXPECT_TRUE(says(sentence(op.node(), {elsewhere, {}, out_.view(), {}}), {"rms_norm runs on cpu", "'x'", "cuda:1"}));
  View elsewhere_out(out_.view().data(), out_.view().spec(), Device{DeviceKind::kCuda, 0});
  EXPECT_TRUE(says(sentence(op.node(), {x_.view(), {}, elsewhere_out, {}}), {"'out'", "cuda:0"}));
}

TEST_F(Dispatch, AMissingArgumentIsAnErrorThatNamesIt) {
  Op<RMSNorm> op = norm("model.norm");
  EXPECT_TRUE(says(sentence(op.node(), {std::nullopt, {}, out_.view(), {}}),
                   {"rms_norm (model.norm)", "without its argument 'x'"}));
  EXPECT_EQ(sentence(op.node(), {x_.view(), {}, out_.view(), {}}), "no error");
}

TEST_F(Dispatch, ACallEverybodyRefusesIsAnErrorThatSaysWhyEachDid) {
  std::unique_ptr<Node> node = Registry::instance().at("sequence_pool").build({{"pooling", std::string("median")}}, {});
  Tensor ends({4}, DType::kI32);
  std::vector<OptView> args{x_.view(), ends.view(), out_.view()};
  std::string text = sentence(*node, args);
  EXPECT_TRUE(text.ends_with(": " + node->refusal(args))) << text;
  EXPECT_TRUE(says(text, {"No implementation of sequence_pool takes (x: f32[3, 8], cu_seqlens: i32[4], out: f32[3, 8])",
                          "oracle: it pools by cls, mean and last only"}));
  for (const ImplementationInfo* implementation : node->implementations())
    EXPECT_TRUE(says(text, {std::string(implementation->name) + ": "}));
}

TEST_F(Dispatch, AnImplementationThatDoesNotExistIsAnErrorWhenTheTreeIsBuilt) {
  BuildOptions options;
  options.only_operator = "rms_norm";
  options.only_implementation = "cpu.abacus";
  const OperatorInfo& info = Registry::instance().at("rms_norm");
  try {
    info.build(info.default_init(), options);
    FAIL() << "built a tree without implementation";
  } catch (const Error& error) {
    EXPECT_TRUE(says(error.what(), {"rms_norm", "cpu.abacus"}));
  }
}

}  // namespace
}  // namespace fk::conformance
