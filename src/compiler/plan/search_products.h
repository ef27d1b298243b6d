// The search among kernels with products: which of them are faster than the calls, and than the kernels that were
// chosen for parts of them.
#pragma once

#include <string>
#include <vector>

#include "compiler/plan/find_products.h"
#include "compiler/plan/search_plan.h"

namespace fk {

struct ChosenProducts {
  PlannedRegion planned;
  std::vector<size_t> covers;  // regions that are inside
};

struct ProductSearch {
  std::vector<KernelChoice> kernels;  // all that were found
  std::vector<ChosenProducts> chosen;
  std::string source;
  double find_s = 0, compile_s = 0, trial_s = 0;
};

// `found`: the regions of the graph of a step that decodes. `chosen`: for each of them the kernel that was chosen, or
// nullptr.
ProductSearch search_products(const GraphBody& flat, const std::vector<FoundRegion>& found,
                              const std::vector<const KernelChoice*>& chosen, const SearchOptions& options);

// Numbers of rows that kernels with products are timed with; where fewer than the last fit, with as many as do.
std::vector<int64_t> timed_product_rows();

// Whether the kernel is faster than the calls, of which some are made by kernels that save `saved_ns`.
bool products_win(const TrialResult& trial, const RegionTiming& timing, double saved_ns);

}  // namespace fk
