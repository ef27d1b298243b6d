// The e-graph: equal nodes once, unions that spread to what uses them, facts that may not contradict.
#include "compiler/egraph/egraph.h"

#include <gtest/gtest.h>

#include "compiler/egraph/extract.h"
#include "core/error.h"

namespace fk {
namespace {

using algebra::Expr;

Expr array(const char* name) { return algebra::input(name, DType::kF32, {2, 3}); }

TEST(EGraph, StoresEqualNodesOnce) {
  EGraph graph;
  ClassId a = graph.add(exp(array("x")) + array("y")), b = graph.add(exp(array("x")) + array("y"));
  EXPECT_EQ(a, b);
  EXPECT_EQ(graph.num_nodes(), 4u);
  EXPECT_NE(a, graph.add(array("y") + exp(array("x"))));
  graph.check();
}

TEST(EGraph, ConstantsDifferInTheirLastBit) {
  EGraph graph;
  EXPECT_NE(graph.add(algebra::constant(0.1 + 0.2)), graph.add(algebra::constant(0.3)));
  EXPECT_NE(graph.add(algebra::constant(0.0)), graph.add(algebra::constant(-0.0)));
}

TEST(EGraph, UnionsSpreadToUsers) {
  EGraph graph;
  ClassId x = graph.add(array("x")), y = graph.add(array("y"));
  ClassId fx = graph.add(tanh(exp(array("x")))), fy = graph.add(tanh(exp(array("y"))));
  EXPECT_NE(graph.find(fx), graph.find(fy));
  EXPECT_TRUE(graph.unite(x, y));
  EXPECT_FALSE(graph.unite(y, x));
  graph.rebuild();
  EXPECT_EQ(graph.find(fx), graph.find(fy));
  EXPECT_EQ(graph.num_nodes(), 4u);
  EXPECT_EQ(graph.nodes_of(algebra::Primitive::kMap).size(), 2u);
  graph.check();
}

TEST(EGraph, ContradictionsAreErrors) {
  EGraph graph;
  ClassId x = graph.add(array("x"));
  EXPECT_THROW(graph.unite(x, graph.add(algebra::input("s", DType::kF32, {3, 2}))), Error);
  EXPECT_THROW(graph.unite(x, graph.add(algebra::input("h", DType::kBF16, {2, 3}))), Error);
  EXPECT_THROW(graph.unite(graph.add(algebra::constant(1)), graph.add(algebra::constant(2))), Error);
  // Also when the contradiction is between what uses them.
  EGraph deep;
  ClassId a = deep.add(algebra::input("a", DType::kI64, {1}));
  ClassId shifted = deep.add(abs(algebra::input("a", DType::kI64, {1})) + 1);
  deep.unite(shifted, deep.add(algebra::input("b", DType::kI64, {1})));
  deep.unite(a, deep.add(broadcast(algebra::constant(-3), {1})));
  deep.unite(shifted, deep.add(broadcast(algebra::constant(4), {1})));
  EXPECT_NO_THROW(deep.rebuild());
  EXPECT_THROW(deep.unite(shifted, deep.add(broadcast(algebra::constant(5), {1}))), Error);
}

TEST(EGraph, BoundsComeFromTheExpression) {
  EGraph graph;
  auto facts = [&](const Expr& e) { return graph.facts(graph.add(e)); };
  Expr index = algebra::iota({4, 5}, 1);
  EXPECT_EQ(facts(index * 3 + 2).high, 14);
  EXPECT_EQ(facts(modulo(index, 3)).high, 2);
  EXPECT_TRUE(facts(exp(array("x"))).not_negative());
  EXPECT_FALSE(facts(array("x") * array("x")).not_negative());  // it does not see that both are the same
  EXPECT_TRUE(facts(array("x")).stored);
  EXPECT_FALSE(facts(array("x") + array("y")).stored);
  EXPECT_TRUE(facts(cast(array("x") + array("y"), DType::kBF16)).stored);
}

TEST(EGraph, EveryNumberOfANarrowTypeIsOneOfAWiderType) {
  EXPECT_TRUE(holds_all_of(DType::kF32, DType::kBF16));
  EXPECT_TRUE(holds_all_of(DType::kF64, DType::kF32));
  EXPECT_TRUE(holds_all_of(DType::kF16, DType::kF8E4M3));
  EXPECT_FALSE(holds_all_of(DType::kBF16, DType::kF16));
  EXPECT_FALSE(holds_all_of(DType::kF16, DType::kBF16));
  EXPECT_FALSE(holds_all_of(DType::kF64, DType::kI64));
  EXPECT_FALSE(holds_all_of(DType::kF32, DType::kI32));
  EXPECT_FALSE(holds_all_of(DType::kI32, DType::kF32));
  for (DType to : kAllDTypes)
    for (DType from : kAllDTypes)
      if (holds_all_of(to, from) && dtype_is_float(from)) {
        EXPECT_LE(dtype_epsilon(to), dtype_epsilon(from));
      }
}

TEST(Extract, TakesTheCheapestAndNeverACycle) {
  EGraph graph;
  Expr x = array("x");
  ClassId cheap = graph.add(x + x), dear = graph.add(exp(x) / exp(x)), root = graph.add(tanh(x + x));
  graph.unite(cheap, dear);
  graph.unite(graph.add(abs(tanh(x + x))), cheap);  // a class that contains itself
  graph.rebuild();
  Extraction best = extract(graph, {root}, element_cost);
  EXPECT_EQ(algebra::expr_text(best.exprs[0]), "tanh(x + x)");
  for (uint64_t seed = 0; seed < 50; ++seed) extract(graph, {root, dear}, random_cost(seed));
}

}  // namespace
}  // namespace fk
