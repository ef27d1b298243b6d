// Regions with products: calls of linear that multiply the same few rows, with the regions before and after them.
//
// They overlap the regions of find_regions(), of which they are made; a search decides which of them are used.
#pragma once

#include <cstddef>
#include <set>
#include <vector>

#include "compiler/plan/find_regions.h"

namespace fk {

struct FoundProducts {
  FoundRegion region;
  std::vector<size_t> covers;  // of the given regions: those that are inside
};

// In the order of their first products; each call is in one of them at most. `found`: the regions of the graph. Layers
// that are alike have the same `kind`.
std::vector<FoundProducts> find_products(const GraphBody& flat, const std::vector<FoundRegion>& found);

// The region with these calls as products; where it cannot be, `products` is empty and the program says why.
FoundRegion products_in(RegionPrograms& programs, Region region, const std::set<size_t>& nodes);

}  // namespace fk
