// RegionCheck: whether a kernel gives what the definitions of a region's calls give, in double, on random inputs and
// poisoned outputs.
#pragma once

#include <string>
#include <vector>

#include "compiler/plan/region_memory.h"
#include "compiler/plan/region_trial.h"
#include "core/memory.h"
#include "core/thread_pool.h"
#include "validate/compare.h"

namespace fk {

Context context_on(Device device, ThreadPool& pool, Arena& arena);

class RegionCheck {
 public:
  // Makes the calls, on inputs of their own: they say how far results may be off.
  RegionCheck(const GraphBody& flat, const FoundRegion& found, GraphPhase phase, int64_t rows, uint64_t seed,
              Device device, ThreadPool& pool);

  // What is wrong with the results of the kernel; empty: nothing. Once only where the region updates a state.
  std::string run(RegionKernel& kernel);
  // How the last run ended.
  TrialEnd end() const { return end_; }

 private:
  const Region& region_;
  const int64_t rows_;
  const Device device_;
  ThreadPool& pool_;
  RegionMemory ours_;
  std::vector<Tensor> before_, references_;
  std::vector<Bounds> bounds_;
  TrialEnd end_ = TrialEnd::kRight;
  std::string unusable_;  // why nothing can be compared with the calls
};

}  // namespace fk
