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
  // as those of the tree. `options`: of all plans, but for arena and device.
  explicit CompiledModel(Model& model, FindRegions find = {}, const PlanOptions& options = {});
  ~CompiledModel();
  CompiledModel(const CompiledModel&) = delete;
  CompiledModel& operator=(const CompiledModel&) = delete;

  // Makes the plan of a phase, which else is made when a batch first needs it. Throws Error where the model has no
  // graph for that phase.
  PlanExecutor& prepare(GraphPhase phase);
  const PlanExecutor* plan(GraphPhase phase) const;  // nullptr before it is made

  // Batches of the phase are run by the tree, although there is a plan: it is slower.
  void leave_to_tree(GraphPhase phase, bool leave) { left_.at(static_cast<size_t>(phase)) = leave; }
  bool left_to_tree(GraphPhase phase) const { return left_.at(static_cast<size_t>(phase)); }

  // A batch whose arrays have other shapes than the graph says runs by the tree, as does one whose calls are recorded
  // by an observer that hears only of their beginning. One call at a time. True: a plan ran it.
  bool call(Context& ctx, Args args);
  int64_t calls_by_tree() const { return calls_by_tree_; }
  void count_from_zero() { calls_by_tree_ = calls_by_whole_ = 0; }
  // An implementation of the whole model that takes a batch (a token in one kernel on CUDA, a candidate) keeps it.
  int64_t calls_by_whole() const { return calls_by_whole_; }
  const std::string& whole() const { return whole_; }  // its name; empty: there was no such batch

 private:
  Model& model_;
  FindRegions find_;
  PlanOptions options_;
  std::shared_ptr<PlanArena> arena_ = std::make_shared<PlanArena>();
  std::unique_ptr<Node> traced_;  // the tree that graphs are traced from, until all are
  std::array<std::unique_ptr<PlanExecutor>, 4> plans_;
  std::array<bool, 4> left_ = {};
  int64_t calls_by_tree_ = 0, calls_by_whole_ = 0;
  std::string whole_;
  bool replaceable_ = false;  // there are implementations of the whole model
};

// What kind of batch this is for a model of that task.
GraphPhase phase_of(const AttentionMetadata& batch, Task task);

}  // namespace fk
