// A fused implementation that replaces the operators below it: used where possible, but not with an observer or a
// candidate for those operators.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <set>

#include "ops/l2/llama_mlp.h"
#include "ops/register.h"
#include "ops/span_observer.h"
#include "ops/unfused.h"

namespace fk {
namespace {

bool switched_on = false;  // other tests of this program call the operator too
int64_t whole_calls = 0;

class WholeMlp final : public LlamaMLP {
 public:
  explicit WholeMlp(const MlpBlockInit& init) : LlamaMLP(init) {}
  std::string_view refuse(Args) const override { return switched_on ? "" : "switched off"; }
  void bind_parts(const PartWeight& weight) override { gate_up_ = weight("gate_up_proj.weight"); }
  void forward(Context&, View, View) override {
    EXPECT_EQ(gate_up_.size(0), 32);
    ++whole_calls;
  }

 private:
  View gate_up_;
};

FK_FUSED_IMPLEMENTATION(LlamaMLP, WholeMlp, "test.whole", DeviceKind::kCpu, 10'000, nullptr);

class Seen final : public CallObserver {
 public:
  bool before_call(const Node& node, const Context&, std::span<const OptView>) override {
    names.insert(std::string(node.info().name));
    return true;
  }
  std::set<std::string> names;
};

class Fused : public testing::Test {
 protected:
  void SetUp() override {
    switched_on = true;
    whole_calls = 0;
    mlp_.node().bind([&](const std::string& name) { return weight(name); });
  }
  void TearDown() override { switched_on = false; }

  View weight(const std::string& name) {
    return weights_.emplace_back(name.find("down") == name.npos ? Shape{32, 8} : Shape{8, 16}, DType::kF32).view();
  }

  void call(CallObserver* observer) {
    Context ctx{.pool = pool_, .arena = arena_, .observer = observer};
    mlp_.into(ctx, x_.view(), out_.view());
  }

  ThreadPool pool_{1};
  Arena arena_;
  Builder builder_{BuildOptions{}};
  Op<LlamaMLP> mlp_ =
      builder_.child<LlamaMLP>("mlp", {.hidden_size = 8, .intermediate_size = 16, .dtype = DType::kF32});
  std::vector<Tensor> weights_;
  Tensor x_{{3, 8}, DType::kF32};
  Tensor out_{{3, 8}, DType::kF32};
};

TEST_F(Fused, IsTakenFirst) {
  call(nullptr);
  EXPECT_EQ(whole_calls, 1);
}

// As the conformance test does it: no other implementation of the operator, but its parts still own the weights.
TEST_F(Fused, IsBoundToItsPartsWhereItIsTheOnlyOne) {
  BuildOptions only;
  only.only_operator = "llama_mlp";
  only.only_implementation = "test.whole";
  Op<LlamaMLP> mlp =
      Builder{only}.child<LlamaMLP>("mlp", {.hidden_size = 8, .intermediate_size = 16, .dtype = DType::kF32});
  mlp.node().bind([&](const std::string& name) { return weight(name); });
  ASSERT_EQ(mlp.node().implementations().size(), 1u);
  Context ctx{.pool = pool_, .arena = arena_};
  mlp.into(ctx, x_.view(), out_.view());
  EXPECT_EQ(whole_calls, 1);
}

TEST_F(Fused, StepsAsideForAnObserver) {
  Seen seen;
  call(&seen);
  EXPECT_EQ(whole_calls, 0);
  EXPECT_TRUE(seen.names.contains("silu_and_mul"));
}

class Spans final : public SpanObserver {
 public:
  bool before_call(const Node& node, const Context&, std::span<const OptView>) override {
    calls += "(" + std::string(node.info().name);
    return true;
  }
  void after_call(const Node&, std::string_view implementation) override {
    calls += (implementation == "test.whole" ? ":whole" : "") + std::string(")");
  }
  std::string calls;
};

// What is timed is what runs without an observer.
TEST_F(Fused, IsTimedByAnObserverOfSpans) {
  Spans spans;
  call(&spans);
  EXPECT_EQ(spans.calls, "(llama_mlp:whole)");
  switched_on = false;
  spans.calls.clear();
  call(&spans);
  EXPECT_EQ(spans.calls,
            "(llama_mlp(merged_column_parallel_linear(linear))(silu_and_mul)(row_parallel_linear(linear)))");
}

TEST_F(Fused, StepsBackWhereItsPartsAreLeftUnfused) {
  auto calls_with = [&](const char* op) {
    leave_unfused({op});
    Op<LlamaMLP> mlp = Builder{BuildOptions{}}.child<LlamaMLP>(
        "mlp", {.hidden_size = 8, .intermediate_size = 16, .dtype = DType::kF32});
    leave_unfused({});
    mlp.node().bind([&](const std::string& name) { return weight(name); });
    Context ctx{.pool = pool_, .arena = arena_};
    whole_calls = 0;
    mlp.into(ctx, x_.view(), out_.view());
    return whole_calls;
  };
  EXPECT_EQ(calls_with("silu_and_mul"), 0);
  EXPECT_EQ(calls_with("gelu_and_mul"), 1);
}

// Computes nothing; records that it was called.
class CandidateSilu final : public ForeignKernel {
 public:
  std::unique_ptr<ForeignOperator> create(const Fields&) const override {
    struct Called final : ForeignOperator {
      explicit Called(int64_t& n) : calls(n) {}
      std::string_view refuse(Args) const override { return ""; }
      void bind(std::span<const std::string>, std::span<const View>) override {}
      void forward(Context&, Args) override { ++calls; }
      int64_t& calls;
    };
    return std::make_unique<Called>(*calls_);
  }
  int64_t calls() const { return *calls_; }

 private:
  std::unique_ptr<int64_t> calls_ = std::make_unique<int64_t>(0);
};

// In a separate process: a candidate cannot be removed from the registry.
TEST_F(Fused, StepsBackForACandidateOfAPartOfItOnly) {
  GTEST_FLAG_SET(death_test_style, "fast");
  auto with_candidate = [&](std::string_view op) {
    auto candidate = std::make_shared<CandidateSilu>();
    Registry::instance().add_foreign(op, "candidate", DeviceKind::kCpu, candidate);
    Op<LlamaMLP> mlp = Builder{BuildOptions{}}.child<LlamaMLP>(
        "mlp", {.hidden_size = 8, .intermediate_size = 16, .dtype = DType::kF32});
    mlp.node().bind([&](const std::string& name) { return weight(name); });
    Context ctx{.pool = pool_, .arena = arena_};
    mlp.into(ctx, x_.view(), out_.view());
    fprintf(stderr, "%d calls of the candidate, %d of the whole", static_cast<int>(candidate->calls()),
            static_cast<int>(whole_calls));
    _exit(0);
  };
  EXPECT_EXIT(with_candidate("silu_and_mul"), testing::ExitedWithCode(0), "1 calls of the candidate, 0 of the whole");
  // An operator that other models have in that place.
  EXPECT_EXIT(with_candidate("gelu_and_mul"), testing::ExitedWithCode(0), "0 calls of the candidate, 1 of the whole");
}

}  // namespace
}  // namespace fk
