// Compositions that are not functions of their inputs: the trace names the call and what is wrong.
#include <gtest/gtest.h>

#include "core/error.h"
#include "graph/trace.h"
#include "ops/l1/scale_add.h"
#include "ops/l2/mlp_block.h"
#include "ops/register.h"

namespace fk {
namespace {

enum Fault : int64_t {
  kNone,
  kInTwoParts,
  kReadsUnwritten,
  kOverwritesArgument,
  kLeavesOutput,
  kHalfOfTheTokens,
  kOtherCalls,
  kMixture,
};

// x -> out, with the fault that its intermediate size names.
class ToyBlock : public MlpBlock {
 public:
  static constexpr std::string_view kName = "toy_block";
  static constexpr std::string_view kClass = "ToyBlock";
  using MlpBlock::MlpBlock;
  static std::vector<Case<ToyBlock>> cases() { return {}; }
};

class ComposedToyBlock final : public ToyBlock {
 public:
  ComposedToyBlock(const Init& init, Builder& builder) : ToyBlock(init), add(builder.child<ScaleAdd>("add", {})) {}

  void forward(Context& ctx, View x, View out) override {
    int64_t tokens = x.size(0), half = init_.hidden_size / 2;
    View y = add(ctx, x);
    switch (init_.intermediate_size) {
      case kInTwoParts: {
        View whole = ctx.arena.make(x.spec());
        add.into(ctx, x.narrow(0, 0, 2), OptView(), whole.narrow(0, 0, 2));
        add.into(ctx, y.narrow(0, 2, tokens - 2), OptView(), whole.narrow(0, 2, tokens - 2));
        return add.into(ctx, whole, OptView(), out);
      }
      case kReadsUnwritten:
        return add.into(ctx, ctx.arena.make(x.spec()), OptView(), out);
      case kOverwritesArgument:
        add.into(ctx, y, OptView(), x);
        return add.into(ctx, x, OptView(), out);
      case kLeavesOutput:
        return;
      case kHalfOfTheTokens:
        add(ctx, x.narrow(0, 0, tokens / 2));
        break;
      case kOtherCalls:
        if (tokens > 30) y = add(ctx, y);
        break;
      case kMixture:
        add.into(ctx, x.narrow(1, 0, half), OptView(), y.narrow(1, 0, half));
        break;
      default:
        break;
    }
    add.into(ctx, y, OptView(), out);
  }

 private:
  Op<ScaleAdd> add;
};

FK_COMPOSITION(ToyBlock, ComposedToyBlock);

Graph traced(Fault fault) {
  ToyBlock::Init init{.hidden_size = 8, .intermediate_size = fault};
  return trace_graph(*Registry::instance().at("toy_block").build(to_fields(init), {.oracle = true}), "toy",
                     GraphPhase::kPrefill, DType::kBF16);
}

std::string error_of(Fault fault) {
  try {
    traced(fault);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Functional, ResultsInPartsAreJoined) {
  EXPECT_EQ(traced(kNone).root().nodes.size(), 2u);
  std::vector<std::string_view> names;
  Graph graph = traced(kInTwoParts);
  for (const GraphNode& node : graph.root().nodes) names.push_back(node.name());
  EXPECT_EQ(names, (std::vector<std::string_view>{"scale_add", "slice", "scale_add", "slice", "scale_add", "concat",
                                                  "scale_add"}));
}

TEST(Functional, FaultsAreNamed) {
  auto expect = [](Fault fault, std::string_view part) {
    EXPECT_NE(error_of(fault).find(part), std::string::npos) << fault << ": " << error_of(fault);
  };
  expect(kReadsUnwritten, "The argument 'x' of scale_add at 'add' is memory that nothing in toy_block has written");
  expect(kOverwritesArgument, "overwrites 'x', an input of toy_block");
  expect(kLeavesOutput, "The argument 'out' of toy_block is memory that nothing in toy_block has written");
  expect(kHalfOfTheTokens, "a size of 'out' of slice is 11 for one batch and 18 for another");
  expect(kOtherCalls, "toy_block makes other calls for a batch of another size");
  expect(kMixture, "is memory that several calls wrote");
}

}  // namespace
}  // namespace fk
