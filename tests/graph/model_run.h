// A model of the catalog with made-up weights, run on one batch.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/model.h"
#include "graph/graph.h"
#include "ops/materialize.h"

namespace fk {

inline Workload workload_of(GraphPhase phase) {
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

inline std::vector<Tensor> copies(const std::vector<Tensor>& tensors) {
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
  ModelRun(const ModelConfig& config, const Workload& wanted, const BuildOptions& options = {})
      : root_(build_model(config, options)) {
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
  const CallData& data() const { return data_; }
  Node::Lookup weight() const {
    return [this](const std::string& name) { return weights_.at(name); };
  }

 private:
  std::unique_ptr<Node> root_;
  CallData data_;
  std::map<std::string, View> weights_;
  ThreadPool pool_{1};
};

}  // namespace fk
