// Implementations are created and bound when a call first asks for them.
#include <gtest/gtest.h>

#include "core/memory.h"
#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {
namespace {

int64_t made = 0, prepared = 0;

// Ranked before the baseline, but takes rows of 24 numbers only.
class RowsOf24 final : public RMSNorm {
 public:
  explicit RowsOf24(const Init& init) : RMSNorm(init) { ++made; }
  std::string_view refuse(Args args) const override { return args[0]->size(-1) == 24 ? "" : "rows of 24 only"; }
  void forward(Context&, View, OptView, View out, OptView) override {
    for (int64_t i = 0; i < out.size(-1); ++i) set(out, get(param(0), i), 0, i);
  }

 protected:
  void prepare() override { ++prepared; }
};
// Behind the baseline, which takes everything.
class NeverAsked final : public RMSNorm {
 public:
  explicit NeverAsked(const Init& init) : RMSNorm(init) { made += 100; }
  void forward(Context&, View, OptView, View, OptView) override {}
};
FK_IMPLEMENTATION(RMSNorm, RowsOf24, "test.rows_of_24", DeviceKind::kCpu, 10'000, nullptr);
FK_IMPLEMENTATION(RMSNorm, NeverAsked, "test.never_asked", DeviceKind::kCpu, -400, nullptr);

class Dispatch : public testing::Test {
 protected:
  void SetUp() override { made = prepared = 0; }

  Op<RMSNorm> norm(int64_t width) {
    return Builder{BuildOptions{}}.child<RMSNorm>("norm", {.hidden_size = width, .dtype = DType::kF32});
  }
  void bind(const Op<RMSNorm>& op, const Tensor& weight) {
    op.node().bind([&](const std::string&) { return weight.view(); });
  }
  float first_output(const Op<RMSNorm>& op, int64_t width) {
    Tensor x({1, width}, DType::kF32), out({1, width}, DType::kF32);
    Context ctx{.pool = pool_, .arena = arena_};
    op.into(ctx, x.view(), OptView(), out.view(), OptView());
    return out.ptr<float>()[0];
  }

  ThreadPool pool_{1};
  Arena arena_;
};

TEST_F(Dispatch, WhatIsNeverAskedIsNeverMade) {
  Op<RMSNorm> op = norm(24);
  Tensor weight({24}, DType::kF32);
  bind(op, weight);
  EXPECT_EQ(made, 0) << "before the first call";
  EXPECT_EQ(op.node().implementations().front()->name, "test.rows_of_24") << "but it is listed";
  first_output(op, 24);
  first_output(op, 24);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(prepared, 1);
}

TEST_F(Dispatch, WeightsBoundBeforeAndAfterTheFirstCallArrive) {
  Op<RMSNorm> op = norm(24);
  Tensor old({24}, DType::kF32), changed({24}, DType::kF32);
  old.ptr<float>()[0] = 3;
  changed.ptr<float>()[0] = 5;
  bind(op, old);
  EXPECT_EQ(first_output(op, 24), 3);
  bind(op, changed);
  EXPECT_EQ(first_output(op, 24), 5);
  EXPECT_EQ(prepared, 2);
}

TEST_F(Dispatch, OneThatRefusesIsFollowedByTheNext) {
  Op<RMSNorm> op = norm(16);
  Tensor weight({16}, DType::kF32);
  bind(op, weight);
  first_output(op, 16);
  EXPECT_EQ(made, 1) << "it was asked";
  std::vector<DispatchCount> counts = collect_dispatches(op.node());
  ASSERT_EQ(counts.size(), 1u);
  EXPECT_EQ(counts[0].implementation.substr(0, 4), "cpu.");
}

}  // namespace
}  // namespace fk
