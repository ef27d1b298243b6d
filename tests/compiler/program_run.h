// A tiny model in f64 as a program, with numbers for its inputs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/program.h"
#include "graph/interpreter.h"
#include "graph/trace.h"
#include "models/catalog.h"
#include "tests/graph/model_run.h"

namespace fk {

class ProgramRun {
 public:
  // `open`: calls are replaced by their definitions.
  ProgramRun(const CatalogEntry& entry, GraphPhase phase, bool open = true)
      : model_(in_f64(entry), workload_of(phase), {.oracle = true}), calls_(&model_.data().batch->attention()) {
    std::unique_ptr<Node> tree = build_model(in_f64(entry), {.oracle = true});
    Graph graph = trace_graph(*tree, entry.name, phase, DType::kF64);
    const CallData& data = model_.data();
    std::vector<OptView> args;
    for (const auto& given : data.given) args.push_back(given ? OptView(given->view()) : std::nullopt);
    BatchSizes sizes =
        batch_sizes(data.batch->attention(), data.state_specs, state_views(data.states), tree->info(), args);
    program_ = make_program(graph, sizes, [&](const GraphNode&) { return open; });
  }

  const Program& program() const { return program_; }
  ModelRun& model() { return model_; }

  std::vector<algebra::Values> evaluate(const std::vector<algebra::Expr>& exprs) {
    return algebra::evaluate(exprs, {[this](const algebra::Head& head) { return input(head); }, calls_});
  }

 private:
  static ModelConfig in_f64(const CatalogEntry& entry) {
    ModelConfig config = entry.config;
    config.set_dtype(DType::kF64);
    return config;
  }

  algebra::Values input(const algebra::Head& head) {
    const CallData& data = model_.data();
    for (size_t i = 0; i < data.given.size(); ++i)
      if (model_.root().info().args[i].name == head.name) return algebra::load_values(data.given[i]->view());
    for (size_t i = 0; i < data.state_specs.size(); ++i)
      if (data.state_specs[i].name == head.name) return algebra::load_values(data.states[i].view());
    if (head.name.starts_with("batch.")) return algebra::load_values(batch_view(data.batch->attention(), head.name));
    return algebra::load_values(model_.weight()(head.name));
  }

  ModelRun model_;
  OracleCalls calls_;
  Program program_;
};

}  // namespace fk
