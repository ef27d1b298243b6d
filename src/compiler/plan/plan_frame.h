// Frame of a PlanExecutor: the steps of a pass with the views of one size of batch, ready to be called.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/plan/plan_executor.h"

namespace fk {

struct FrameStep {
  PlanStep::Kind kind = PlanStep::Kind::kCall;
  Node* node = nullptr;
  size_t index = 0;             // of a region
  size_t first = 0, count = 0;  // of a call in `args`, of others in `views`
  size_t inputs = 0;            // of a region: how many of them are inputs
};

struct PlanExecutor::Frame {
  BatchSizes sizes;
  uint64_t arena_moves = 0;
  std::vector<View> externals;  // no data where an output is not wanted
  std::vector<bool> active;     // by region
  Layout* layout = nullptr;
  std::vector<FrameStep> steps;
  std::vector<OptView> args;
  std::vector<View> views;
  std::vector<std::pair<View, View>> late_copies;  // of outputs that could not be written where the caller wants them
  size_t arena_bytes = 0, lower_bound = 0;

  // `all`: of every place of the layout.
  void take_steps(const PlanLayout& layout, const std::vector<View>& all, const std::vector<Node*>& nodes,
                  const std::vector<PlannedRegion>& regions);
};

Shape shape_at(const std::vector<SymbolicSize>& shape, const BatchSizes& sizes);

// The elements of `from` in their order, row by row; `to` has the same shape, or is dense and has as many elements.
void copy_array(const View& from, const View& to);

// "nan at [3, 17]", of an array of floats; nothing where all are finite, or -inf if that is allowed.
std::optional<std::string> first_not_finite(const View& view, bool minus_inf_allowed = false);

}  // namespace fk
