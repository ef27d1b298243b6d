// The graph of a model, run kernel by kernel, gives bit for bit what the model's tree gives: outputs and states.
#include "graph/interpreter.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/error.h"
#include "engine/model.h"
#include "graph/graph_json.h"
#include "graph/trace.h"
#include "tests/graph/model_run.h"
#include "tests/graph/tiny_models.h"

namespace fk {
namespace {

void expect_same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(std::memcmp(a[i].view().data(), b[i].view().data(), a[i].view().size_bytes()), 0) << what << " " << i;
}

void expect_same_run(const ModelConfig& config, const std::string& name, GraphPhase phase) {
  SCOPED_TRACE(name + " " + std::string(phase_name(phase)));
  ModelRun model(config, workload_of(phase));
  Graph graph = trace_graph(*build_model(config, {.oracle = true}), name, phase, config.facts.dtype);
  // Through JSON, so that it says everything that a run needs.
  graph = graph_from_json(graph_to_json(graph));
  GraphInterpreter interpreter(graph, model.weight(), collect_states(model.root()));
  auto by_graph = model.run([&](Context& ctx, Args args) { interpreter.run(ctx, args); });
  auto by_tree = model.run([&](Context& ctx, Args args) { model.root().call(ctx, args); });
  expect_same_bits(by_graph.outputs, by_tree.outputs, "output");
  expect_same_bits(by_graph.states, by_tree.states, "state");
}

// A mixed batch has the calls of both kinds.
TEST(Interpreter, EqualsTheTreeInEveryFamily) {
  for (const CatalogEntry* entry : one_of_each_family())
    expect_same_run(entry->config, entry->name, phases_of(*entry).back());
}

TEST(Interpreter, SlowEqualsTheTreeForEveryTinyModel) {
  for (const CatalogEntry* entry : tiny_models())
    for (GraphPhase phase : phases_of(*entry))
      for (DType dtype : {DType::kBF16, DType::kF32}) {
        ModelConfig config = entry->config;
        config.set_dtype(dtype);
        expect_same_run(config, entry->name, phase);
      }
}

TEST(Interpreter, RefusesABatchOfAnotherPhaseOrShape) {
  const ModelConfig& config = find_catalog("tiny-llama")->config;
  ModelRun model(config, workload_of(GraphPhase::kMixed));
  auto root = build_model(config, {.oracle = true});
  Graph decode = trace_graph(*root, "tiny-llama", GraphPhase::kDecode, config.facts.dtype);
  GraphInterpreter interpreter(decode, model.weight(), collect_states(*root));
  EXPECT_THROW(model.run([&](Context& ctx, Args args) { interpreter.run(ctx, args); }), Error);
  Graph mixed = trace_graph(*root, "tiny-llama", GraphPhase::kMixed, config.facts.dtype);
  GraphInterpreter fitting(mixed, model.weight(), collect_states(*root));
  EXPECT_THROW(model.run([&](Context& ctx, Args args) {
    std::vector<OptView> shorter(args.begin(), args.end());
    shorter[0] = shorter[0]->narrow(0, 0, 3);
    fitting.run(ctx, shorter);
  }),
               Error);
}

}  // namespace
}  // namespace fk
