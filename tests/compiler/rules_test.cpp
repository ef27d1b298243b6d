// Every rule: what it must prove, and what it must not.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "compiler/egraph/rewrite.h"

namespace fk {
namespace {

using algebra::constant;
using algebra::Expr;
using algebra::iota;

// Whether the one rule makes them equal.
bool proves(const std::string& rule, const Expr& a, const Expr& b) {
  std::vector<Rule> one;
  for (const Rule& r : algebra_rules())
    if (r.name == rule) one.push_back(r);
  EXPECT_EQ(one.size(), 1u) << rule;
  EGraph graph;
  ClassId left = graph.add(a), right = graph.add(b);
  SaturationReport report = saturate(graph, one, {.iterations = 6});
  graph.check();
  EXPECT_EQ(report.rules[0].refused, 0);
  return graph.find(left) == graph.find(right);
}

Expr f32(const char* name, algebra::Extents shape) { return algebra::input(name, DType::kF32, std::move(shape)); }
Expr x() { return f32("x", {2, 3}); }
Expr y() { return f32("y", {2, 3}); }
Expr row() { return f32("row", {3}); }
Expr column() { return f32("column", {2, 1}); }

TEST(Rules, ViewOfView) {
  Expr cube = f32("cube", {2, 3, 4});
  EXPECT_TRUE(proves("view_of_view", transpose(transpose(cube, 0, 1), 0, 1), cube));
  EXPECT_TRUE(proves("view_of_view", slice(slice(row(), 0, 1, 2), 0, 1, 1), slice(row(), 0, 2, 1)));
  EXPECT_TRUE(proves("view_of_view", slice(slice(row(), 0, 2, 3, -1), 0, 2, 3, -1), row()));
  Expr square = f32("square", {3, 3, 3});  // of which two swaps fit the shape, and are not each other's inverse
  EXPECT_FALSE(proves("view_of_view", transpose(transpose(square, 0, 1), 1, 2), square));
  EXPECT_FALSE(proves("view_of_view", slice(slice(row(), 0, 1, 2), 0, 1, 1), slice(row(), 0, 1, 1)));
}

TEST(Rules, ViewOfMap) {
  EXPECT_TRUE(proves("view_of_map", transpose(x() - y(), 0, 1), transpose(x(), 0, 1) - transpose(y(), 0, 1)));
  EXPECT_TRUE(proves("view_of_map", slice(cast(x(), DType::kBF16), 1, 0, 2), cast(slice(x(), 1, 0, 2), DType::kBF16)));
  EXPECT_FALSE(proves("view_of_map", transpose(x() - y(), 0, 1), transpose(y(), 0, 1) - transpose(x(), 0, 1)));
  // A reduction is no function of the elements in one place.
  EXPECT_FALSE(proves("view_of_map", slice(sum(x(), 1), 0, 0, 1), sum(slice(x(), 1, 0, 2), 1)));
}

TEST(Rules, MapOfViews) {
  algebra::Extents shape{2, 3};
  Expr wide = broadcast(column(), shape), other = broadcast(f32("d", {2, 1}), shape);
  EXPECT_TRUE(proves("map_of_views", exp(wide), broadcast(exp(column()), shape)));
  EXPECT_TRUE(proves("map_of_views", wide + other, broadcast(column() + f32("d", {2, 1}), shape)));
  EXPECT_TRUE(proves("map_of_views", wide * 2, broadcast(column() * 2, shape)));
  EXPECT_FALSE(proves("map_of_views", wide * 2, broadcast(column() * 2.0000001, shape)));
  EXPECT_FALSE(proves("map_of_views", wide + broadcast(row(), shape), broadcast(column() + column(), shape)));
  // A view that makes nothing larger stays where it is.
  EXPECT_FALSE(proves("map_of_views", exp(transpose(x(), 0, 1)), transpose(exp(x()), 0, 1)));
}

TEST(Rules, Commute) {
  EXPECT_TRUE(proves("commute", x() + y(), y() + x()));
  EXPECT_TRUE(proves("commute", x() * y(), y() * x()));
  EXPECT_TRUE(proves("commute", max(x(), y()), max(y(), x())));
  EXPECT_TRUE(proves("commute", equal(x(), y()), equal(y(), x())));
  EXPECT_FALSE(proves("commute", x() - y(), y() - x()));
  EXPECT_FALSE(proves("commute", x() / y(), y() / x()));
  EXPECT_FALSE(proves("commute", x() < y(), y() < x()));
  EXPECT_FALSE(proves("commute", (x() + y()) + x(), x() + (x() + y()) * 1));
}

TEST(Rules, FactorOutOfSum) {
  EXPECT_TRUE(proves("factor_out_of_sum", sum(x() * column(), 1), sum(x(), 1) * column()));
  EXPECT_TRUE(proves("factor_out_of_sum", sum(column() * x(), 1), column() * sum(x(), 1)));
  EXPECT_TRUE(proves("factor_out_of_sum", sum(x() / column(), 1), sum(x(), 1) / column()));
  EXPECT_FALSE(proves("factor_out_of_sum", sum(column() / x(), 1), column() / sum(x(), 1)));
  EXPECT_TRUE(
      proves("factor_out_of_sum", sum(x() * row(), 0), sum(x(), 0) * slice(broadcast(row(), {2, 3}), 0, 0, 1)) ||
      proves("factor_out_of_sum", sum(x() * row(), 0), sum(x(), 0) * broadcast(row(), {1, 3})));
  // It changes along the axis; x * x is no product with something fixed; the largest of scaled numbers is not scaled.
  EXPECT_FALSE(proves("factor_out_of_sum", sum(x() * row(), 1), sum(x(), 1) * sum(row(), 0)));
  EXPECT_FALSE(proves("factor_out_of_sum", sum(x() * x(), 1), sum(x(), 1) * sum(x(), 1)));
  EXPECT_FALSE(proves("factor_out_of_sum", largest(x() * column(), 1), largest(x(), 1) * column()));
  // Of nothing the sum is 0, also where the factor is infinite.
  Expr none = f32("none", {2, 0});
  EXPECT_FALSE(proves("factor_out_of_sum", sum(none * column(), 1), sum(none, 1) * column()));
}

TEST(Rules, CastOfCast) {
  Expr half = algebra::input("h", DType::kBF16, {4}), ids = algebra::input("i", DType::kI64, {4});
  Expr single = f32("s", {4});
  EXPECT_TRUE(proves("cast_of_cast", cast(cast(half, DType::kF32), DType::kBF16), half));
  EXPECT_TRUE(proves("cast_of_cast", cast(cast(half, DType::kF32), DType::kF16), cast(half, DType::kF16)));
  // A rounding is never taken away, nor is one added.
  EXPECT_FALSE(proves("cast_of_cast", cast(cast(single, DType::kBF16), DType::kF32), single));
  EXPECT_FALSE(proves("cast_of_cast", cast(cast(half, DType::kF16), DType::kBF16), half));
  EXPECT_FALSE(proves("cast_of_cast", cast(cast(ids, DType::kF32), DType::kI64), ids));
  // Of a sum of f32 only the precision is known, not that it was rounded to f32.
  Expr inexact = single + single;
  EXPECT_FALSE(proves("cast_of_cast", cast(cast(inexact, DType::kF64), DType::kBF16), cast(inexact, DType::kBF16)));
}

TEST(Rules, Reshapes) {
  EXPECT_TRUE(proves("reshape_of_reshape", reshape(reshape(x(), {6}), {3, 2}), reshape(x(), {3, 2})));
  EXPECT_TRUE(proves("reshape_of_reshape", reshape(reshape(x(), {6}), {2, 3}), x()));
  EXPECT_FALSE(proves("reshape_of_reshape", reshape(transpose(reshape(x(), {3, 2}), 0, 1), {2, 3}), x()));
  EXPECT_TRUE(proves("reshape_of_map", reshape(x() + y(), {6}), reshape(x(), {6}) + reshape(y(), {6})));
  EXPECT_FALSE(proves("reshape_of_map", reshape(x() - y(), {6}), reshape(y(), {6}) - reshape(x(), {6})));
  EXPECT_TRUE(proves("reshape_is_view", reshape(x(), {2, 1, 3}), insert_axis(x(), 1)));
  EXPECT_TRUE(proves("reshape_is_view", reshape(column(), {1, 2}), transpose(column(), 0, 1)));
  EXPECT_FALSE(proves("reshape_is_view", reshape(f32("q", {3, 3}), {1, 3, 3}),
                      insert_axis(transpose(f32("q", {3, 3}), 0, 1), 0)));
}

TEST(Rules, Divisions) {
  EXPECT_TRUE(proves("divide_by_power_of_two", x() / 64, x() * 0.015625));
  EXPECT_TRUE(proves("divide_by_power_of_two", x() / -2, x() * -0.5));
  EXPECT_FALSE(proves("divide_by_power_of_two", x() / 3, x() * (1.0 / 3)));
  EXPECT_FALSE(proves("divide_by_power_of_two", x() / 0, x() * INFINITY));
  EXPECT_FALSE(proves("divide_by_power_of_two", 64 / x(), x() * 0.015625));
  algebra::Extents shape{2, 3};
  EXPECT_TRUE(proves("divide_by_repeated", x() / column(), x() * broadcast(1 / column(), shape)));
  EXPECT_FALSE(proves("divide_by_repeated", x() / y(), x() * (1 / y())));
  // 1 * (1 / y) around 1 / y would be a part of itself.
  EXPECT_FALSE(proves("divide_by_repeated", 1 / broadcast(column(), shape), 1 * broadcast(1 / column(), shape)));
  // Integers have no inverse.
  Expr ids = algebra::input("i", DType::kI64, {2, 1});
  EXPECT_FALSE(proves("divide_by_repeated", x() / ids, x() * broadcast(1 / ids, shape)));
}

TEST(Rules, IndexOfRow) {
  Expr a = iota({4, 8}, 0), b = iota({4, 8}, 1), any = algebra::input("any", DType::kI64, {4, 8});
  EXPECT_TRUE(proves("index_of_row", floor_divide(a * 8 + b, 8), a));
  EXPECT_TRUE(proves("index_of_row", modulo(a * 8 + b, 8), b));
  EXPECT_FALSE(proves("index_of_row", floor_divide(a * 7 + b, 7), a));      // b reaches 7
  EXPECT_FALSE(proves("index_of_row", floor_divide(a * 8 + b, 9), a));      // another divisor
  EXPECT_FALSE(proves("index_of_row", floor_divide(any * 8 + b, 8), any));  // may be negative
  EXPECT_FALSE(proves("index_of_row", modulo(a * 8 + any, 8), any));        // may be anything
  EXPECT_FALSE(proves("index_of_row", floor_divide(a * 8 + b, 8), b));
}

TEST(Rules, HaveNamesAndLaws) {
  std::set<std::string_view> names;
  for (const Rule& rule : algebra_rules()) {
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    EXPECT_FALSE(rule.law.empty());
  }
}

}  // namespace
}  // namespace fk
