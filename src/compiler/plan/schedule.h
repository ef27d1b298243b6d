// The order in which the nodes of a flat graph run when some of them are made together, as regions.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/plan/region.h"

namespace fk {

// A node that runs alone, or a region.
struct ScheduleUnit {
  bool is_region = false;
  size_t index = 0;  // of the node, or of the region
};

// As close to the order of the graph as the regions permit. Throws Error as make_layout() says.
std::vector<ScheduleUnit> schedule_units(const GraphBody& body, const std::vector<const Region*>& regions);

}  // namespace fk
