// Expressions: shapes, index maps, texts, and the evaluation of every primitive on numbers small enough to read.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "core/error.h"
#include "ops/algebra/evaluate.h"
#include "ops/algebra/expr.h"
#include "ops/algebra/pieces.h"

namespace fk::algebra {
namespace {

const Values kNumbers = std::make_shared<std::vector<double>>(std::vector<double>{1, 2, 3, 4, 5, 6});

std::vector<double> numbers(const Expr& e) {
  return *evaluate({e}, {[](const Head&) { return kNumbers; }})[0];
}
Expr x() { return input("x", DType::kF32, {2, 3}); }

using List = std::vector<double>;

TEST(Expr, BroadcastsFromTheEnd) {
  Expr sum = x() + input("row", DType::kF32, {3});
  EXPECT_EQ(sum.shape(), (Extents{2, 3}));
  EXPECT_EQ(expr_text(sum), "x + row[j]");
  EXPECT_THROW(x() + input("row", DType::kF32, {2}), Error);
  EXPECT_EQ(numbers(x() * 2 - 1), (List{1, 3, 5, 7, 9, 11}));
}

TEST(Expr, ViewsAreIndexMaps) {
  EXPECT_EQ(numbers(transpose(x(), 0, 1)), (List{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(numbers(slice(x(), 1, 2, 3, -1)), (List{3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(numbers(slice(x(), 1, 0, 2, 2)), (List{1, 3, 4, 6}));
  EXPECT_EQ(numbers(reshape(transpose(x(), 0, 1), {6})), (List{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(numbers(drop_axis(insert_axis(x(), 1), 0)), (List{1, 2, 3}));
  // Both dimensions move: the diagonal.
  EXPECT_EQ(numbers(view(x(), {{0, 0}, {{1}, {1}}}, {2})), (List{1, 5}));
  EXPECT_THROW(slice(x(), 1, 1, 3), Error);
  EXPECT_THROW(slice(x(), 1, -1, 2), Error);
  EXPECT_THROW(reshape(x(), {4}), Error);
}

TEST(Expr, ViewsThatChangeNothingAreLeftOut) {
  EXPECT_EQ(slice(x(), 0, 0, 2).head().primitive, Primitive::kInput);
  Expr once = input("y", DType::kF32, {1, 3});
  EXPECT_EQ(broadcast(once, {1, 3}).id(), once.id());
  IndexMap swap{{0, 0}, {{0, 1}, {1, 0}}};
  EXPECT_TRUE(is_identity(compose(swap, swap), {2, 2}, {2, 2}));
  EXPECT_FALSE(is_identity(swap, {2, 2}, {2, 2}));
}

TEST(Expr, ReducesAndScans) {
  EXPECT_EQ(numbers(sum(x(), 1)), (List{6, 15}));
  EXPECT_EQ(numbers(largest(x(), 0)), (List{4, 5, 6}));
  EXPECT_EQ(numbers(smallest(x(), -1)), (List{1, 4}));
  EXPECT_EQ(numbers(reduce(Fold::kAny, equal(x(), 5), 1)), (List{0, 1}));
  EXPECT_EQ(numbers(scan(x(), 1)), (List{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(numbers(scan(x(), 0)), (List{1, 2, 3, 5, 7, 9}));
  EXPECT_EQ(numbers(sum(x() * x(), 1)), (List{14, 77}));
  // Over nothing: what does not change a result.
  Expr none = slice(x(), 1, 0, 0);
  EXPECT_EQ(numbers(sum(none, 1)), (List{0, 0}));
  EXPECT_EQ(numbers(largest(none, 1)), (List{-INFINITY, -INFINITY}));
  EXPECT_EQ(numbers(sum(slice(x(), 0, 0, 0), 1)), List{});
}

TEST(Expr, GathersZerosOutside) {
  Expr index = table({1, -1, 0, 2}, DType::kI64, {4});
  EXPECT_EQ(numbers(gather(x(), index)), (List{4, 5, 6, 0, 0, 0, 1, 2, 3, 0, 0, 0}));
  EXPECT_EQ(numbers(gather(x(), index, 1)), (List{2, 0, 1, 3, 5, 0, 4, 6}));
  EXPECT_EQ(numbers(sum(gather(x(), index, 1), 1)), (List{6, 15}));
}

TEST(Expr, ScattersRowsInOrder) {
  Expr index = table({1, 7, 1, -1}, DType::kI64, {4});
  Expr rows = table({1, 1, 2, 2, 3, 3, 4, 4}, DType::kF32, {4, 2});
  Expr into = table({8, 8, 9, 9}, DType::kF32, {2, 2});
  EXPECT_EQ(numbers(scatter(into, index, rows)), (List{8, 8, 3, 3}));
  EXPECT_THROW(scatter(into, index, slice(rows, 0, 0, 2)), Error);
}

TEST(Expr, KeepsAtLeastThePrecisionOfItsInputs) {
  Expr half = input("h", DType::kBF16, {2}), wide = input("w", DType::kF64, {2}), ids = input("i", DType::kI32, {2});
  EXPECT_EQ((half * half).dtype(), DType::kF32);
  EXPECT_EQ(sum(half, 0).dtype(), DType::kF32);
  EXPECT_EQ((half + wide).dtype(), DType::kF64);
  EXPECT_EQ((ids + 1).dtype(), DType::kI64);
  EXPECT_EQ((ids / 2).dtype(), DType::kF32);
  EXPECT_EQ(largest(half, 0).dtype(), DType::kBF16);
  EXPECT_EQ((half < wide).dtype(), DType::kBool);
  EXPECT_EQ(cast(half, DType::kBF16).id(), half.id());
}

TEST(Expr, CastsRound) {
  EXPECT_EQ(numbers(cast(x() + 0x1p-9, DType::kBF16)), *kNumbers);
  EXPECT_EQ(numbers(cast(x() * 0.5, DType::kI64)), (List{0, 1, 1, 2, 2, 3}));
}

TEST(Expr, LargestOfRowsWithANanIsNan) {
  double nan = std::numeric_limits<double>::quiet_NaN();
  Expr rows = table({1, nan, 3, 4}, DType::kF32, {2, 2});
  List got = numbers(largest(rows, 1));
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_EQ(got[1], 4);
  EXPECT_EQ(numbers(is_nan(rows)), (List{0, 1, 0, 0}));
}

TEST(Expr, TextsHaveEveryDigit) {
  EXPECT_EQ(expr_text(x() + 1e-6), "x + 1e-06");
  EXPECT_EQ(std::stod(number_text(0.1 + 0.2)), 0.1 + 0.2);
  EXPECT_EQ(program_text({{"out", softmax(x(), 1)}}), "t0 = exp(x - max(x, 1)[i, 0])\nout = t0 / sum(t0, 1)[i, 0]\n");
}

TEST(Expr, OpaqueCallsNeedAnEvaluator) {
  Expr y = call({"sample", "{}", {"x"}, "out"}, {x()}, DType::kF32, {2, 3});
  EXPECT_THROW(numbers(y), Error);
  Environment environment{[](const Head&) { return kNumbers; },
                          [](const Expr&, const std::vector<Values>& given) { return given[0]; }};
  EXPECT_EQ(*evaluate({y * 2}, environment)[0], (List{2, 4, 6, 8, 10, 12}));
}

TEST(Expr, InputsOfAnotherSizeAreRefused) { EXPECT_THROW(numbers(input("x", DType::kF32, {7})), Error); }

TEST(Expr, SubstitutesInputsOfTheSameTypeOnly) {
  Expr y = x() * 2;
  Expr other = substitute({y}, [](const Expr&) { return input("z", DType::kF32, {2, 3}); })[0];
  EXPECT_EQ(expr_text(other), "z * 2");
  EXPECT_THROW(substitute({y}, [](const Expr&) { return input("z", DType::kF32, {3, 2}); }), Error);
}

// Experts are chosen by ids, which kernels use as indices.
TEST(PickLargest, IsAnIndexWhateverTheNumbersAre) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
  const std::pair<List, List> rows[] = {{{3, 1, 3, 2}, {0, 2, 3}},
                                        {{-kInf, -kInf, -kInf, -kInf}, {0, 1, 2}},
                                        {{kInf, 1, kInf, 2}, {0, 2, 3}},
                                        {{kNaN, kNaN, kNaN, kNaN}, {}},
                                        {{1, kNaN, 5, 0}, {}}};
  for (const auto& [row, ids] : rows) {
    const Picks picks = pick_largest(input("x", DType::kF32, {1, 4}), 3);
    const std::vector<Values> got =
        evaluate(picks.ids, {[&](const Head&) { return std::make_shared<std::vector<double>>(row); }});
    std::set<double> different;
    for (size_t j = 0; j < got.size(); ++j) {
      const double id = (*got[j])[0];
      if (!ids.empty()) {
        EXPECT_EQ(id, ids[j]);
      }
      EXPECT_TRUE(id >= 0 && id < 4) << id;
      different.insert(id);
    }
    EXPECT_EQ(different.size(), got.size());
  }
}

}  // namespace
}  // namespace fk::algebra
