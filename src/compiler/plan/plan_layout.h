// PlanLayout: the steps of one pass in order, and which memory every value has, for any batch of the graph's phase.
//
// Slices and reshapes are views. What a call updates in place has the memory of the old value if nothing reads that
// afterwards; else the old value is copied first. The parts of a concatenation are written where they belong.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/plan/region.h"
#include "core/dtype.h"
#include "graph/graph.h"

namespace fk {

// Where a value is.
struct PlanPlace {
  enum class Kind : uint8_t {
    kNone,      // inside a region: nowhere
    kExternal,  // `of` is an index into the body's inputs, or behind those its outputs: memory that the caller gives
    kMemory,    // all of a memory of the plan
    kSlice,     // of another place
    kReshape,
    kSame,
  };
  Kind kind = Kind::kNone;
  int of = -1;
  DType dtype = DType::kF32;
  std::vector<SymbolicSize> shape = {};
  std::vector<SymbolicSize> starts = {};  // of a slice
};

// Dense memory for results.
struct PlannedMemory {
  DType dtype = DType::kF32;
  std::vector<SymbolicSize> shape = {};
  int first = 0, last = 0;      // units of the schedule between which something in it is needed
  int inside = -1;              // of a part of a concatenation: the memory of all of it
  SymbolicSize first_row = {};  // there
  int output = -1;              // index into GraphBody::outputs: the caller's memory, where that is dense
};

struct PlanStep {
  enum class Kind : uint8_t { kCall, kRegion, kCopy };
  Kind kind = Kind::kCall;
  size_t index = 0;  // of the node, or of the region
  // Of a call: its arguments, -1 for those that are absent. Of a region: inputs, then outputs. Of a copy: from, to.
  std::vector<int> places = {};
};

struct PlanLayout {
  std::vector<PlanStep> steps;
  std::vector<PlanPlace> places;  // of the body's values, by their number; then others
  std::vector<int> order;         // of the places: each after the one it is a part of
  std::vector<PlannedMemory> memory;
  // Steps that copy, by the reason.
  int copies_in_place = 0, copies_concat = 0, copies_reshape = 0, copies_output = 0;

  int copies() const { return copies_in_place + copies_concat + copies_reshape + copies_output; }
};

// `regions` are made in one step each. Throws Error where they cannot be: two share a node, one needs a value that
// follows from its own results, or a value inside of one is read outside and is not among its outputs.
PlanLayout make_layout(const GraphBody& body, GraphPhase phase, const std::vector<const Region*>& regions);

// Other views of the same memory; nothing where the elements cannot be reached without a copy.
std::optional<View> reshaped_view(const View& view, const Shape& shape);

}  // namespace fk
