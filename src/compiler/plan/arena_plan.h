// plan_arena: where in one block of memory each of several arrays lies, so that no two that live at the same time
// overlap.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace fk {

inline constexpr size_t kPlanAlignment = 64;  // a cache line, and the widest vector of any CPU

struct ArenaRequest {
  size_t bytes = 0;
  int first = 0, last = 0;  // steps between which it must stay, both included
};

struct ArenaPlan {
  std::vector<size_t> offsets;  // of the requests, in order; multiples of kPlanAlignment
  size_t bytes = 0;             // of the whole block
  // The largest sum of what lives at one time, each array in whole cache lines: no plan has less.
  size_t lower_bound = 0;
  std::vector<size_t> order = {};  // in which the arrays were placed
};

// `hint`: the order of an earlier plan of the same arrays with other sizes; it saves most of the search.
ArenaPlan plan_arena(std::span<const ArenaRequest> requests, std::span<const size_t> hint = {});

}  // namespace fk
