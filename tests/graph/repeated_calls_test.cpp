// Compositions that are built alike and called alike run once in a trace; all others run themselves.
#include <gtest/gtest.h>

#include <map>

#include "graph/symbolic_size.h"
#include "graph/trace.h"
#include "ops/l1/scale_add.h"
#include "ops/l2/mlp_block.h"
#include "ops/register.h"

namespace fk {
namespace {

int runs_of_sum = 0;

// x + other, by two calls; without `other` by one.
class ToySum : public Operator {
 public:
  static constexpr std::string_view kName = "toy_sum";
  static constexpr std::string_view kClass = "ToySum";
  static constexpr int kLevel = 2;
  using Init = ScaleAdd::Init;
  static constexpr std::array kArgs{in("x"), opt_in("other"), out("out")};
  explicit ToySum(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, OptView other, View out) = 0;
  static OutputSpecs outputs(const Init&, Args given) { return {given[0]->spec()}; }
  static Inputs inputs(const Init&, const Workload& w) {
    return {InputSpec{{{w.num_tokens(), 8}, w.dtype}, Generator::normal()}, std::nullopt};
  }
  static Cost cost(const Init&, const Workload&) { return {}; }
  static Tolerance tolerance(const Init&, DType dtype) { return rounding_tolerance(dtype); }
  static std::vector<Case<ToySum>> cases() { return {}; }

 protected:
  const Init init_;
};

class ComposedToySum final : public ToySum {
 public:
  ComposedToySum(const Init& init, Builder& builder) : ToySum(init), add(builder.child<ScaleAdd>("add", init)) {}

  void forward(Context& ctx, View x, OptView other, View out) override {
    ++runs_of_sum;
    View y = add(ctx, x);
    if (other) y = add(ctx, *other, y);
    add.into(ctx, y, OptView(), out);
  }

 private:
  Op<ScaleAdd> add;
};

FK_COMPOSITION(ToySum, ComposedToySum);

enum Second : int64_t {
  kAlike,
  kOtherScale,
  kWithoutOther,
  kSameMemoryTwice,
  kColumns,
};

// Two sums, the second as the intermediate size says.
class ToyStack : public MlpBlock {
 public:
  static constexpr std::string_view kName = "toy_stack";
  static constexpr std::string_view kClass = "ToyStack";
  using MlpBlock::MlpBlock;
  static std::vector<Case<ToyStack>> cases() { return {}; }
};

class ComposedToyStack final : public ToyStack {
 public:
  ComposedToyStack(const Init& init, Builder& builder)
      : ToyStack(init),
        first(builder.child<ToySum>("layers.0", {})),
        second(builder.child<ToySum>("layers.1", {.scale = init.intermediate_size == kOtherScale ? 0.5 : 1})),
        add(builder.child<ScaleAdd>("add", {})) {}

  void forward(Context& ctx, View x, View out) override {
    const int64_t half = x.size(1) / 2;
    View y = add(ctx, x), left = x.narrow(1, 0, half), right = y.narrow(1, half, half);
    switch (init_.intermediate_size) {
      case kWithoutOther:
        return second.into(ctx, first(ctx, x, y), OptView(), out);
      case kSameMemoryTwice:
        second.into(ctx, first(ctx, x, y), x, out);
        return add.into(ctx, second(ctx, y, y), OptView(), out);
      case kColumns:
        add(ctx, first(ctx, left, right), second(ctx, add(ctx, left), add(ctx, right)));
        break;
      default:
        return second.into(ctx, first(ctx, x, y), x, out);
    }
    add.into(ctx, y, OptView(), out);
  }

 private:
  Op<ToySum> first, second;
  Op<ScaleAdd> add;
};

FK_COMPOSITION(ToyStack, ComposedToyStack);

std::unique_ptr<Node> stack(Second second) {
  ToyStack::Init init{.hidden_size = 8, .intermediate_size = second};
  return Registry::instance().at("toy_stack").build(to_fields(init), {.oracle = true});
}

// How often the sums ran in the trace of a graph, for each batch that was tried.
int runs(Second second) {
  runs_of_sum = 0;
  std::unique_ptr<Node> root = stack(second);
  Graph graph = trace_graph(*root, "toy", GraphPhase::kEncode, DType::kBF16);
  // Tokens, sequences and logits vary: the first batch, one for each, and one that checks.
  constexpr int kBatches = 5;
  EXPECT_EQ(runs_of_sum % kBatches, 0) << second;
  const int once = runs_of_sum / kBatches;
  // What a trace of all calls says.
  const BatchSizes sizes{{101, 17, 7, 19, 211, 64, 29, 31}};
  Graph all = trace_at(*root, "toy", GraphPhase::kEncode, DType::kBF16, sizes);
  share_bodies(all);
  for (GraphBody& body : graph.bodies) {
    for (GraphValue& value : body.values)
      for (SymbolicSize& size : value.shape) size = size.at(sizes);
    for (GraphNode& node : body.nodes)
      for (SymbolicSize& size : node.starts) size = size.at(sizes);
  }
  EXPECT_EQ(graph, all) << second;
  return once;
}

TEST(RepeatedCalls, ThatAreAlikeRunOnce) { EXPECT_EQ(runs(kAlike), 1); }

TEST(RepeatedCalls, ThatAreNotAlikeRunThemselves) {
  EXPECT_EQ(runs(kOtherScale), 2);
  EXPECT_EQ(runs(kWithoutOther), 2);
  EXPECT_EQ(runs(kSameMemoryTwice), 2) << "of three, the third has one argument twice";
  EXPECT_EQ(runs(kColumns), 2) << "columns of a wider array, and an array";
}

}  // namespace
}  // namespace fk
