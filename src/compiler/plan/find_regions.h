// The regions of a graph: neighbouring calls that one generated kernel can compute row by row.
#pragma once

#include <vector>

#include "compiler/codegen/loop_nest.h"
#include "compiler/plan/region.h"
#include "compiler/plan/region_program.h"

namespace fk {

struct FoundRegion {
  Region region;
  RegionProgram program;
  LoopProgram loops;
};

// As large as they can be, in the order of their last nodes: there a plan runs them. No call before that reads what a
// region computes. Regions of one call are among them.
// `rules` gets what the rules of the algebra did.
std::vector<FoundRegion> find_regions(const GraphBody& flat, std::vector<RuleStatistics>* rules = nullptr);

}  // namespace fk
