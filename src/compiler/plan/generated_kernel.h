// GeneratedKernel: a region's kernel that was compiled from generated source.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/cuda_kernel.h"
#include "compiler/codegen/region_source.h"
#include "compiler/plan/find_regions.h"

namespace fk {

// The kernel of a region before it is compiled. Regions that compute the same have the same `key`.
struct RegionDraft {
  std::string key;                             // hex
  std::vector<std::string> names;              // of inputs and outputs, in the order of the region
  std::set<std::string> constants;             // of those that are weights
  std::map<std::string, std::string> updated;  // outputs that are an input after the kernel: states
  std::string calls;                           // "rotary_emb + store_kvcache"
  std::string expression;                      // what it computes, as text
};
RegionDraft draft_of(const FoundRegion& found, const GraphBody& flat, DeviceKind device = DeviceKind::kCpu);
// As a source has it; refers to both.
RegionText text_of(const RegionDraft& draft, const FoundRegion& found);

// The same, once for each kind of region.
class RegionDrafts {
 public:
  RegionDrafts(const GraphBody& flat, DeviceKind device) : flat_(flat), device_(device) {}
  const RegionDraft& of(const FoundRegion& found);

 private:
  const GraphBody& flat_;
  const DeviceKind device_;
  std::map<int, RegionDraft> known_;  // by kind; numbers of regions without one are below zero
  int next_ = -1;
};

// A kernel with products is one in several cuts (product_cuts()), of which one is used for one row and one for several.
class CutKernel : public RegionKernel {
 public:
  static constexpr int kNoCut = -1;

  virtual int64_t most_rows() const = 0;  // that a cut for several takes
  // kNoCut: such rows are refused.
  virtual void use(int one, int several) = 0;
};

// Compiled through the cache of candidates; kernels in the order of `found`. Those for the CPU are one source, those
// for CUDA as many as this machine has cores, compiled at the same time, with `cxxflags` after the usual ones. Throws
// Error with the compiler's first message.
struct CompiledRegions {
  std::vector<std::shared_ptr<RegionKernel>> kernels;
  std::vector<std::string> libraries;  // files that they were loaded from
  std::string source;  // of all of them; those that this process has loaded before are not compiled again
  double compile_seconds = 0;
};
CompiledRegions compile_regions(const std::vector<const FoundRegion*>& found, const GraphBody& flat,
                                const std::string& cache_folder = {}, DeviceKind device = DeviceKind::kCpu,
                                const std::vector<std::string>& cxxflags = {});

// Removes what compile_regions wrote and compiled; libraries that a process has loaded stay.
struct RemovedKernels {
  int64_t sources = 0, libraries = 0;
};
RemovedKernels remove_generated(const std::string& cache_folder = {});

// A kernel of a library that compile_regions made, in this process or another one.
std::shared_ptr<RegionKernel> load_region(const std::string& library, const FoundRegion& found, const GraphBody& flat,
                                          DeviceKind device);

// One that was compiled in another way, by its launcher: tests run CUDA kernels on the CPU.
std::shared_ptr<RegionKernel> cuda_region_kernel(CudaRegionFunction launcher, const FoundRegion& found, bool dependent);

}  // namespace fk
