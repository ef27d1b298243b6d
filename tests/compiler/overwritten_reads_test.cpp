// A row of a state that is stored from other elements of the same row: they are read before any is overwritten.
#include <gtest/gtest.h>

#include <set>

#include "compiler/codegen/c_text.h"
#include "compiler/codegen/cut_reductions.h"
#include "compiler/codegen/loop_nest.h"
#include "compiler/plan/find_regions.h"
#include "ops/registry.h"

namespace fk {
namespace {

using algebra::Expr;

class OverwrittenReads : public testing::Test {
 protected:
  Expr stored(const Expr& rows) const { return scatter(state_, slots_, rows); }

  Expr state_ = algebra::input("state", DType::kF32, {kVaryingExtent, 4, 8});
  Expr slots_ = algebra::input("slots", DType::kI32, {kVaryingExtent + 1});
  Expr x_ = algebra::input("x", DType::kF32, {kVaryingExtent + 1, 4, 8});
  Expr row_ = gather(state_, slots_);
};

TEST_F(OverwrittenReads, OfTheSameElementStay) {
  const std::vector<algebra::NamedExpr> results = {{"out", row_ + x_}, {"y0", stored(0.5 * row_ + x_)}};
  EXPECT_EQ(cut_overwritten_reads(results).size(), results.size());
}

TEST_F(OverwrittenReads, OfOtherElementsComeFirst) {
  // What a delta rule does: all elements of a column are read, then each is changed.
  const std::vector<algebra::NamedExpr> results = {{"y0", stored(row_ + x_ * sum(row_ * x_, 1))}};
  const std::vector<algebra::NamedExpr> cut = cut_overwritten_reads(results);
  ASSERT_EQ(cut.size(), 2u);
  EXPECT_TRUE(is_cut(cut[0].name));
  EXPECT_EQ(cut[1].name, "y0");
  EXPECT_EQ(cut[0].expr.shape(), (algebra::Extents{kVaryingExtent + 1, 1, 8}));
  const LoopProgram loops = lower_to_row_loops(cut, {cut[0].name});
  ASSERT_EQ(loops.refusal, "");
  EXPECT_EQ(loops.locals.at(cut[0].name).elements, 8);
  ASSERT_EQ(loops.nests.size(), 2u);  // the second one stores the state
  EXPECT_EQ(loops.nests[1].statements.back().name, "y0");
}

TEST_F(OverwrittenReads, OfShiftedElementsComeFirst) {
  // A window of the last tokens moves by one.
  Expr last = slice(x_, 1, 0, 1);
  const std::vector<algebra::NamedExpr> results = {
      {"y0", stored(broadcast(slice(row_ * 1.5, 1, 1, 1), {kVaryingExtent + 1, 4, 8}) + last)}};
  EXPECT_EQ(cut_overwritten_reads(results).size(), 2u);
}

TEST_F(OverwrittenReads, OfOtherRowsAreRefused) {
  Expr other = gather(state_, slots_ + 1);
  EXPECT_THROW(cut_overwritten_reads({{"y0", stored(other + x_)}}), NoLoops);
  EXPECT_THROW(cut_overwritten_reads({{"y0", stored(x_ * sum(other * x_, 1))}}), NoLoops);
}

TEST_F(OverwrittenReads, BesideTheStoreAreOfItsRowAndBeforeIt) {
  Expr other = gather(state_, slots_ + 1), late = algebra::input("late", DType::kF32, {kVaryingExtent, 4, 8});
  const algebra::NamedExpr store{"y1", stored(x_)};
  EXPECT_NO_THROW(refuse_overwritten_reads({{"y0", x_ * sum(row_ * x_, 1)}, store}));
  EXPECT_NO_THROW(refuse_overwritten_reads({store, {"y2", x_ + gather(late, slots_ + 1)}})) << "another state";
  EXPECT_THROW(refuse_overwritten_reads({{"y0", other + x_}, store}), NoLoops) << "rows of another thread";
  EXPECT_THROW(refuse_overwritten_reads({{"y0", x_ + sum(state_, 0)}, store}), NoLoops) << "all rows";
  EXPECT_THROW(refuse_overwritten_reads({store, {"y2", row_ + x_}}), NoLoops) << "after it was overwritten";
  EXPECT_THROW(refuse_overwritten_reads({store, {"y2", scatter(late, slots_, row_)}}), NoLoops) << "a second state";
  EXPECT_THROW(refuse_overwritten_reads({store, {"y2", scatter(state_, slots_ + 1, x_)}}), NoLoops) << "stored twice";
  // The same number means another row where the state is seen in another shape.
  Expr finer = gather(reshape(state_, {4 * kVaryingExtent, 8}), slots_);
  EXPECT_THROW(refuse_overwritten_reads({{"y0", finer}, store}), NoLoops);
}

TEST_F(OverwrittenReads, OfOtherItemsOfARowAreInLoopsBeforeTheStore) {
  const LoopProgram apart = lower_to_row_loops({{"y0", x_ * sum(row_ * x_, 1)}, {"y1", stored(x_)}}, {});
  ASSERT_EQ(apart.refusal, "");
  ASSERT_EQ(apart.nests.size(), 2u);
  EXPECT_EQ(apart.nests[1].statements.back().name, "y1");
  const LoopProgram together = lower_to_row_loops({{"y0", row_ + x_}, {"y1", stored(row_ * 0.5 + x_)}}, {});
  ASSERT_EQ(together.refusal, "");
  EXPECT_EQ(together.nests.size(), 1u);
}

TEST_F(OverwrittenReads, PartsThatAreSharedAreLookedAtOnce) {
  Expr power = row_;
  for (int i = 0; i < 64; ++i) power = power * power;
  EXPECT_EQ(cut_overwritten_reads({{"y0", stored(x_ * sum(power, 1))}}).size(), 2u);
}

TEST_F(OverwrittenReads, CutsOfTwoKindsHaveTheirOwnNames) {
  Expr inner = sum(sum(x_, 2) * 2, 1);
  const std::vector<algebra::NamedExpr> first =
      cut_reductions({{"out", inner + 0 * x_}, {"y0", stored(row_ + x_ * sum(row_ * x_, 1))}});
  const std::vector<algebra::NamedExpr> cut = cut_overwritten_reads(first);
  std::set<std::string> names;
  for (const algebra::NamedExpr& r : cut) EXPECT_TRUE(names.insert(r.name).second) << r.name;
  EXPECT_EQ(cut.size(), first.size() + 1);
  EXPECT_GT(first.size(), 2u);
}

// A call that takes rows of a state by another index than the call behind it, which overwrites them.
TEST(OverwrittenRows, OfAnotherCallKeepTheCallsApart) {
  SymbolicSize tokens, slots;
  tokens.factors[static_cast<size_t>(SizeSymbol::kTokens)] = 1;
  slots.factors[static_cast<size_t>(SizeSymbol::kSlots)] = 1;
  for (bool other_rows : {true, false}) {
    GraphBody flat;
    flat.values = {{ValueKind::kState, "state", DType::kF32, {slots, 8}},
                   {ValueKind::kBatch, "batch.index", DType::kI32, {tokens}},
                   {ValueKind::kBatch, "batch.state_slots", DType::kI32, {tokens}},
                   {ValueKind::kResult, "", DType::kF32, {tokens, 8}},
                   {ValueKind::kResult, "", DType::kF32, {tokens, 8}},
                   {ValueKind::kResult, "", DType::kF32, {slots, 8}}};
    flat.inputs = {0, 1, 2};
    GraphNode take, shift;
    take.op = "index_select";
    shift.op = "token_shift";
    for (GraphNode* node : {&take, &shift}) {
      node->level = 1;
      node->init = Registry::instance().at(node->op).default_init();
    }
    for (auto& [name, value] : shift.init)
      if (name == "hidden_size") value = int64_t{8};
    take.inputs = {{"x", 0}, {"index", other_rows ? 1 : 2}};
    take.outputs = {{"out", 3}};
    shift.inputs = {{"x", 3}, {"shift_state", 0}, {"state_slots", 2}};
    shift.outputs = {{"shift_state", 5}, {"out", 4}};
    flat.nodes = {take, shift};
    flat.outputs = {{"out", 4}};
    EXPECT_EQ(find_regions(flat).size(), other_rows ? 2u : 1u);
  }
}

}  // namespace
}  // namespace fk
