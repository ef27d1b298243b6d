// Reductions inside of reductions become results of their own, and nothing else changes.
#include "compiler/codegen/cut_reductions.h"

#include <gtest/gtest.h>

#include "compiler/codegen/loop_nest.h"

namespace fk {
namespace {

using algebra::Expr;

constexpr int64_t kCutRows = kVaryingExtent + 3;

// The sum of the largest of four groups, and what each element of x is above it.
std::vector<algebra::NamedExpr> above_groups(int64_t rows) {
  const Expr x = algebra::input("x", DType::kF32, {rows, 32});
  const Expr best = reshape(largest(reshape(x, {rows, 4, 8}), 2), {rows, 4});
  return {{"y", x - sum(best, 1)}};
}

TEST(CutReductions, InnerOnesAreResultsOfARow) {
  const std::vector<algebra::NamedExpr> results = above_groups(kCutRows);
  EXPECT_EQ(lower_to_row_loops(results, {}).refusal, "a reduction is not along the last dimension");
  const std::vector<algebra::NamedExpr> cut = cut_reductions(results);
  ASSERT_EQ(cut.size(), 2u);
  EXPECT_EQ(cut[0].name, "#0");
  EXPECT_EQ(cut[0].expr.shape(), (algebra::Extents{kCutRows, 4, 1}));
  const LoopProgram loops = lower_to_row_loops(cut, {"#0"});
  EXPECT_EQ(loops.refusal, "");
  EXPECT_EQ(loops.locals.at("#0").elements, 4);
  // Put together again, it is the same expression.
  const Expr whole =
      algebra::substitute({cut[1].expr}, [&](const Expr& i) { return i.head().name == "#0" ? cut[0].expr : i; })[0];
  EXPECT_EQ(algebra::expr_text(whole), algebra::expr_text(results[0].expr));
}

TEST(CutReductions, NoArgumentIsTakenForOne) {
  EXPECT_TRUE(is_cut(cut_reductions(above_groups(kCutRows))[0].name));
  for (const char* name : {"cut", "cut0", "cutoff", "out"}) EXPECT_FALSE(is_cut(name)) << name;
}

TEST(CutReductions, OneAfterTheOtherStays) {
  // A softmax: its sum needs its largest element, and both are one number of a row.
  const Expr x = algebra::input("x", DType::kF32, {kCutRows, 32});
  EXPECT_EQ(cut_reductions({{"y", algebra::softmax(x, 1)}}).size(), 1u);
}

}  // namespace
}  // namespace fk
