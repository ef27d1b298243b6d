// GeneratedKernel: a region's kernel that was compiled from generated source.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/region_source.h"
#include "compiler/plan/find_regions.h"

namespace fk {

// The kernel of a region before it is compiled. Regions that compute the same have the same `key`.
struct RegionDraft {
  std::string key;                 // hex
  std::vector<std::string> names;  // of inputs and outputs, in the order of the region
  std::string calls;               // "rotary_emb + store_kvcache"
  std::string expression;          // what it computes, as text
};
RegionDraft draft_of(const FoundRegion& found, const GraphBody& flat);

// One source for all of them, compiled once through the cache of candidates; kernels in the order of `found`. Throws
// Error with the compiler's first message.
struct CompiledRegions {
  std::vector<std::shared_ptr<RegionKernel>> kernels;
  std::string source;  // of all of them; those that this process has loaded before are not compiled again
  double compile_seconds = 0;
};
CompiledRegions compile_regions(const std::vector<const FoundRegion*>& found, const GraphBody& flat,
                                const std::string& cache_folder = {});

}  // namespace fk
