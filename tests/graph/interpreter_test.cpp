// The graph of a model, run kernel by kernel, gives bit for bit what the model's tree gives: outputs and states.
#include "graph/interpreter.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "core/error.h"
#include "engine/model.h"
#include "graph/graph_json.h"
#include "graph/trace.h"
#include "ops/materialize.h"
#include "tests/graph/tiny_models.h"

namespace fk {
namespace {

Workload workload_of(GraphPhase phase) {
  switch (phase) {
    case GraphPhase::kPrefill:
      return Workload::batch({{5, 0}, {12, 0}, {1, 0}, {4, 21}});
    case GraphPhase::kDecode:
      return Workload::batch({{1, 18}, {1, 3}}).with_pages_of(8);
    case GraphPhase::kMixed:
      return Workload::batch({{1, 18}, {1, 3}, {6, 0}, {4, 21}});
    case GraphPhase::kEncode:
      break;
  }
  return Workload::batch({{5, 0}, {19, 0}, {1, 0}});
}

std::vector<Tensor> copies(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> list;
  for (const Tensor& t : tensors) {
    list.emplace_back(t.view().spec());
    std::memcpy(list.back().view().data(), t.view().data(), t.view().size_bytes());
  }
  return list;
}

// A model with weights, and one batch for it.
class ModelRun {
 public:
  ModelRun(const ModelConfig& config, const Workload& wanted) : root_(build_model(config, {})) {
    Workload workload = wanted;
    workload.dtype = config.facts.dtype;
    data_ = make_call_data(*root_, root_->info().possible(root_->init(), workload), 7);
    std::vector<ParamSpec> params = collect_params(*root_);
    for (size_t i = 0; i < params.size(); ++i) weights_.emplace(params[i].name, data_.params[i]);
    root_->bind(weight());
  }

  struct Result {
    std::vector<Tensor> outputs, states;
  };

  // `call` runs the model with a whole list of arguments.
  template <class Call>
  Result run(const Call& call) {
    Result result{{}, copies(data_.states)};
    std::vector<OptView> args;
    for (const auto& given : data_.given) args.push_back(given ? OptView(given->view()) : std::nullopt);
    OutputSpecs outputs = root_->outputs(args);
    for (size_t i = 0; args.size() < root_->info().args.size(); ++i) {
      if (outputs.specs[i]) {
        result.outputs.emplace_back(*outputs.specs[i]);
        std::memset(result.outputs.back().view().data(), 0x5a, result.outputs.back().view().size_bytes());
      }
      args.push_back(outputs.specs[i] ? OptView(result.outputs.back().view()) : std::nullopt);
    }
    Arena arena;
    std::vector<View> states = state_views(result.states);
    Context ctx{pool_, arena, &data_.batch->attention(), states};
    call(ctx, args);
    return result;
  }

  Node& root() { return *root_; }
  Node::Lookup weight() const {
    return [this](const std::string& name) { return weights_.at(name); };
  }

 private:
  std::unique_ptr<Node> root_;
  CallData data_;
  std::map<std::string, View> weights_;
  ThreadPool pool_{1};
};

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
