// The regions of a graph: neighbouring calls that one generated kernel can compute row by row.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/attention_program.h"
#include "compiler/codegen/loop_nest.h"
#include "compiler/plan/region.h"
#include "compiler/plan/region_program.h"
#include "core/device.h"

namespace fk {

struct FoundRegion {
  Region region;
  RegionProgram program;
  LoopProgram loops;
  std::shared_ptr<const ProductProgram> products = nullptr;     // instead of loops (find_products.h)
  std::set<size_t> product_nodes = {};                          // the calls of linear that are its products
  std::shared_ptr<const AttentionProgram> attention = nullptr;  // instead of loops: a call of attention
  int kind = -1;  // regions that find_regions() returned together and that have one kind are the same; -1: not known
};

// As large as they can be, in the order of their last nodes: there a plan runs them. No call before that reads what a
// region computes. Regions of one call are among them.
// `rules` gets what the rules of the algebra did. On CUDA a row must fit a block's shared memory. Nodes of `left_out`
// are in no region.
std::vector<FoundRegion> find_regions(const GraphBody& flat, std::vector<RuleStatistics>* rules = nullptr,
                                      DeviceKind device = DeviceKind::kCpu, const std::set<size_t>& left_out = {});

// By name the outputs that update an input: {"y1", "x6"}.
std::map<std::string, std::string> updated_arrays(const Region& region);

// One whose calls are known. `products`: those of linear that are products; none: it has loops. Throws Error where
// there is no such kernel for the device.
FoundRegion region_in_graph(const GraphBody& flat, Region region, DeviceKind device = DeviceKind::kCpu,
                            const std::set<size_t>& products = {});

}  // namespace fk
