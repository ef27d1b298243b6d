// Properties of saturation: whatever is extracted has the same values, and the order of rules changes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "compiler/egraph/extract.h"
#include "compiler/egraph/rewrite.h"
#include "compiler/program.h"
#include "graph/interpreter.h"
#include "graph/trace.h"
#include "tests/compiler/program_run.h"
#include "tests/compiler/random_exprs.h"
#include "tests/graph/tiny_models.h"

namespace fk {
namespace {

using algebra::Expr;

bool has_casts(uint64_t seed) { return seed % 4 == 0; }

std::vector<Expr> random_program(uint64_t seed, int size) {
  RandomExprs random(seed, has_casts(seed));
  std::vector<Expr> all;
  for (int i = 0; i < size; ++i) all.push_back(random.next());
  return all;
}

// A cast rounds: where an input of it moved by a last bit, the result may move by a step of its type.
constexpr double kStep = 0x1p-7;

void expect_same_values_of_extractions(uint64_t first_seed, uint64_t programs) {
  constexpr int kExtractions = 20;
  const algebra::Environment environment{RandomExprs::values_of};
  int differ = 0;  // extractions that differ from the program
  for (uint64_t seed = first_seed; seed < first_seed + programs; ++seed) {
    std::vector<Expr> program = random_program(seed, 10);
    std::vector<algebra::Values> expected = algebra::evaluate(program, environment);
    EGraph graph;
    std::vector<ClassId> roots = graph.add_all(program);
    saturate(graph, algebra_rules(), {.iterations = 5, .nodes = 1500});
    graph.check();
    for (uint64_t k = 0; k < kExtractions; ++k) {
      Extraction got = extract(graph, roots, random_cost(seed * 1000 + k));
      std::vector<algebra::Values> values = algebra::evaluate(got.exprs, environment);
      for (size_t i = 0; i < roots.size(); ++i) {
        ASSERT_LE(distance(*values[i], *expected[i]), has_casts(seed) ? kStep : 1e-9)
            << "seed " << seed << ": " << algebra::expr_text(program[i]) << "\n became "
            << algebra::expr_text(got.exprs[i]);
        differ += algebra::expr_text(program[i]) != algebra::expr_text(got.exprs[i]);
      }
    }
  }
  EXPECT_GT(differ, static_cast<int>(programs) * kExtractions);  // else nothing was tested
}

TEST(Saturation, RandomExtractionsHaveTheSameValues) { expect_same_values_of_extractions(0, 120); }
TEST(Saturation, SlowRandomExtractionsOfManyPrograms) { expect_same_values_of_extractions(120, 500); }

// Which of the program's expressions are equal, and how large the graph is.
struct Outcome {
  std::vector<int> classes;
  size_t num_classes = 0, num_nodes = 0;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

TEST(Saturation, TheOrderOfRulesDoesNotMatter) {
  int saturated = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::vector<Expr> program = random_program(seed, 5);
    std::optional<Outcome> first;
    for (uint64_t order = 0; order < 4; ++order) {
      std::vector<Rule> rules = algebra_rules();
      std::mt19937_64 random(order);
      if (order > 0) std::shuffle(rules.begin(), rules.end(), random);
      EGraph graph;
      std::vector<ClassId> roots = graph.add_all(program);
      SaturationReport report = saturate(graph, rules, {.iterations = 40, .nodes = 4000});
      if (!report.saturated) break;
      ++saturated;
      Outcome outcome{{}, graph.classes().size(), graph.num_nodes()};
      std::map<ClassId, int> numbers;
      for (ClassId c : roots)
        outcome.classes.push_back(numbers.try_emplace(graph.find(c), static_cast<int>(numbers.size())).first->second);
      if (!first) first = outcome;
      EXPECT_EQ(outcome.classes, first->classes) << seed;
      EXPECT_EQ(outcome.num_classes, first->num_classes) << seed;
      EXPECT_EQ(outcome.num_nodes, first->num_nodes) << seed;
    }
  }
  EXPECT_GE(saturated, 100);
}

TEST(Saturation, IsTheSameEveryTime) {
  std::vector<Expr> program = random_program(3, 12);
  auto text = [&] {
    EGraph graph;
    std::vector<ClassId> roots = graph.add_all(program);
    saturate(graph, algebra_rules(), {.iterations = 4, .nodes = 3000});
    std::string all = std::to_string(graph.num_nodes());
    for (const Expr& e : extract(graph, roots, element_cost).exprs) all += "\n" + algebra::expr_text(e);
    return all;
  };
  EXPECT_EQ(text(), text());
}

TEST(Saturation, CountsWhatEveryRuleDid) {
  EGraph graph;
  Expr x = algebra::input("x", DType::kF32, {4, 8});
  graph.add(softmax(x * 2, 1));
  SaturationReport report = saturate(graph, algebra_rules());
  EXPECT_TRUE(report.saturated);
  ASSERT_EQ(report.rules.size(), algebra_rules().size());
  int64_t unions = 0;
  for (const RuleStatistics& r : report.rules) {
    EXPECT_LE(r.unions, r.matches);
    EXPECT_LE(r.time_ns, report.time_ns);
    unions += r.unions;
  }
  EXPECT_GT(unions, 0);
}

// The sum of a softmax is divided once for each row, not for each element.
TEST(Saturation, FindsTheCheaperExpression) {
  EGraph graph;
  Expr x = algebra::input("x", DType::kF32, {4, 64});
  ClassId root = graph.add(softmax(x, 1));
  double before = extract(graph, {root}, element_cost).cost;
  saturate(graph, algebra_rules());
  Extraction best = extract(graph, {root}, element_cost);
  EXPECT_LT(best.cost, before);
  EXPECT_NE(algebra::program_text({{"out", best.exprs[0]}}).find("(1 / sum("), std::string::npos)
      << algebra::program_text({{"out", best.exprs[0]}});
}

void expect_same_model(const CatalogEntry& entry, int extractions) {
  SCOPED_TRACE(entry.name);
  ProgramRun run(entry, phases_of(entry).back());
  std::vector<algebra::Values> expected = run.evaluate(run.program().exprs());
  EGraph graph;
  std::vector<ClassId> roots = graph.add_all(run.program().exprs());
  SaturationReport report = saturate(graph, algebra_rules(), {.iterations = 3, .nodes = 30'000});
  graph.check();
  for (const RuleStatistics& r : report.rules) EXPECT_EQ(r.refused, 0) << r.rule;
  for (int k = 0; k < extractions; ++k) {
    std::vector<algebra::Values> values =
        run.evaluate(extract(graph, roots, random_cost(static_cast<uint64_t>(k))).exprs);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_LT(distance(*values[i], *expected[i]), 1e-9);
  }
}

TEST(Saturation, WholeModelsHaveTheSameValues) {
  expect_same_model(*find_catalog("tiny-llama"), 3);
  expect_same_model(*find_catalog("tiny-qwen3-moe"), 1);
}

TEST(Saturation, SlowWholeModelsOfEveryFamilyHaveTheSameValues) {
  for (const CatalogEntry* entry : one_of_each_family()) expect_same_model(*entry, 12);
}

}  // namespace
}  // namespace fk
