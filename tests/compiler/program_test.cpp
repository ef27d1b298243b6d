// A whole model as expressions of its inputs, evaluated in f64, gives what its tree of oracles gives.
#include "compiler/program.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/interpreter.h"
#include "graph/trace.h"
#include "ops/algebra/definition.h"
#include "tests/graph/model_run.h"
#include "tests/graph/tiny_models.h"

namespace fk {
namespace {

// The inputs of a program, from a run of the model.
algebra::Environment environment_of(const ModelRun& model, Node& root) {
  const CallData& data = model.data();
  const OracleCalls calls(&data.batch->attention());
  auto input = [&model, &data, &root](const algebra::Head& head) {
    for (size_t i = 0; i < data.given.size(); ++i)
      if (root.info().args[i].name == head.name) return algebra::load_values(data.given[i]->view());
    for (size_t i = 0; i < data.state_specs.size(); ++i)
      if (data.state_specs[i].name == head.name) return algebra::load_values(data.states[i].view());
    if (head.name.starts_with("batch.")) return algebra::load_values(batch_view(data.batch->attention(), head.name));
    return algebra::load_values(model.weight()(head.name));
  };
  return {input, calls};
}

// The largest difference of two lists of numbers, relative to the largest number of the second.
double distance(const std::vector<double>& a, const View& tensor) {
  algebra::Values b = algebra::load_values(tensor);
  EXPECT_EQ(a.size(), b->size());
  double off = 0, scale = 1e-300;
  for (size_t i = 0; i < a.size(); ++i) {
    double apart = a[i] == (*b)[i] ? 0 : std::abs(a[i] - (*b)[i]);
    off = apart <= off ? off : apart;  // a NaN stays
    scale = std::max(scale, std::abs((*b)[i]));
  }
  return off / scale;
}

void expect_same_numbers(const CatalogEntry& entry, GraphPhase phase, bool open) {
  SCOPED_TRACE(entry.name + " " + std::string(phase_name(phase)));
  ModelConfig config = entry.config;
  config.set_dtype(DType::kF64);
  ModelRun model(config, workload_of(phase), {.oracle = true});
  Graph graph = trace_graph(model.root(), entry.name, phase, DType::kF64);
  ModelRun fresh(config, workload_of(phase), {.oracle = true});  // tracing binds weights that do not exist
  ModelRun::Result expected = fresh.run([&](Context& ctx, Args args) { fresh.root().call(ctx, args); });
  const CallData& data = fresh.data();
  BatchSizes sizes = batch_sizes(data.batch->attention(), data.state_specs, state_views(data.states));
  Program program = make_program(graph, sizes, [&](const GraphNode&) { return open; });
  std::vector<algebra::Values> values = algebra::evaluate(program.exprs(), environment_of(fresh, fresh.root()));
  const std::vector<ArgSpec>& args = fresh.root().info().args;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string& name = program.results[i].name;
    OptView found;
    for (size_t k = 0; k < data.state_specs.size(); ++k)
      if (data.state_specs[k].name == name) found = expected.states[k].view();
    for (size_t k = data.given.size(), o = 0; k < args.size(); ++k, ++o)
      if (args[k].name == name) found = expected.outputs[o].view();
    ASSERT_TRUE(found) << name;
    EXPECT_LT(distance(*values[i], *found), 1e-9) << name;
  }
}

TEST(Program, OfDefinitionsEqualsTheTree) {
  for (const CatalogEntry* entry : one_of_each_family()) expect_same_numbers(*entry, phases_of(*entry).back(), true);
}

TEST(Program, OfCallsEqualsTheTree) { expect_same_numbers(*find_catalog("tiny-llama"), GraphPhase::kMixed, false); }

TEST(Program, SlowOfDefinitionsEqualsTheTreeForEveryTinyModel) {
  for (const CatalogEntry* entry : tiny_models())
    for (GraphPhase phase : phases_of(*entry)) expect_same_numbers(*entry, phase, true);
}

}  // namespace
}  // namespace fk
