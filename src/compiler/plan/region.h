// Region: calls of a flat graph that one kernel can compute, and what goes in and out of it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/forward_context.h"

namespace fk {

struct Region {
  std::vector<size_t> nodes;    // of GraphBody::nodes, in order: calls, slices, reshapes, concatenations
  std::vector<ValueId> inputs;  // values that its nodes read and others make; each once
  struct Output {
    ValueId value = 0;  // that a node outside reads, or the body returns
    int updates = -1;   // index into `inputs`: the model's state that it is after the call, in the same memory
  };
  std::vector<Output> outputs;
};

// A kernel that computes all calls of a region.
class RegionKernel {
 public:
  virtual ~RegionKernel() = default;

  // Why this kernel cannot take these arrays; empty: it can. Then the calls are made one by one.
  virtual std::string_view refuse(std::span<const View> inputs, std::span<const View> outputs) const = 0;
  // In the order of the region. An output that updates a state has the memory of that input; the memory of every other
  // output is new, dense and overlaps nothing.
  virtual void run(Context& ctx, std::span<const View> inputs, std::span<const View> outputs) = 0;
};

// A region of a plan and the kernel that was chosen for it.
struct PlannedRegion {
  Region region;
  std::shared_ptr<RegionKernel> kernel;
  int instead_of = -1;  // of the plan's regions: used only for batches that that one refuses, and inside of it
};

}  // namespace fk
