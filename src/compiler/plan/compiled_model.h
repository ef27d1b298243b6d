// CompiledModel: stands in for the tree of a loaded model. Every phase is run by a plan of its own.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "compiler/plan/plan_executor.h"
#include "engine/model.h"

namespace fk {

class CompiledModel {
 public:
  // From now on, and until this is destroyed, calls of the model come here. The model must stay where it is. `find`
  // tells which regions of the graphs are made by one kernel; nothing: none are, and the results have the same bits
  // as those of the tree.
  explicit CompiledModel(Model& model, FindRegions find = {}, bool check_every_step = false);
  ~CompiledModel();
  CompiledModel(const CompiledModel&) = delete;
  CompiledModel& operator=(const CompiledModel&) = delete;

  // Makes the plan of a phase, which else is made when a batch first needs it. Throws Error where the model has no
  // graph for that phase.
  PlanExecutor& prepare(GraphPhase phase);
  const PlanExecutor* plan(GraphPhase phase) const;  // nullptr before it is made

  // A batch whose arrays have other shapes than the graph says runs by the tree, as does one whose calls are recorded
  // by an observer that hears only of their beginning. One call at a time.
  void call(Context& ctx, Args args);
  int64_t calls_by_tree() const { return calls_by_tree_; }
  // An implementation of the whole model that takes a batch (a token in one kernel on CUDA, a candidate) keeps it.
  int64_t calls_by_whole() const { return calls_by_whole_; }
  const std::string& whole() const { return whole_; }  // its name; empty: there was no such batch

 private:
  Model& model_;
  FindRegions find_;
  bool check_every_step_;
  std::shared_ptr<PlanArena> arena_ = std::make_shared<PlanArena>();
  std::unique_ptr<Node> traced_;  // the tree that graphs are traced from, until all are
  std::array<std::unique_ptr<PlanExecutor>, 4> plans_;
  int64_t calls_by_tree_ = 0, calls_by_whole_ = 0;
  std::string whole_;
  bool replaceable_ = false;  // there are implementations of the whole model
};

// What kind of batch this is for a model of that task.
GraphPhase phase_of(const AttentionMetadata& batch, Task task);

}  // namespace fk
