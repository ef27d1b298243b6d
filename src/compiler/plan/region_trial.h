// Trial of a generated kernel: is it right, and is it faster than the calls it stands for.
//
// It runs in a process of its own, so that a kernel that crashes or hangs ends only that.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/plan/generated_kernel.h"
#include "core/json_fwd.h"
#include "measure/paired.h"

namespace fk {

struct RegionTiming {
  int64_t rows = 0;
  double calls_ns = 0, kernel_ns = 0;  // medians
  double speedup = 0, low = 0, high = 0;
  std::string verdict;  // FASTER, SLOWER, SAME, UNRESOLVED or INVALID
};
// The baseline is the calls, the candidate the kernel. The interval is of these launches only: it serves a choice that
// is checked again in whole steps, and a plan is no claim about other processes.
RegionTiming timing_of(int64_t rows, const PairedSamples& samples, const PairedSamples& control, uint64_t seed);

// A few samples of one cut of a kernel with products.
struct CutTime {
  int cut = 0;  // of product_cuts()
  int64_t rows = 0;
  double ns = 0;
};

// How a trial ended.
enum class TrialEnd : uint8_t {
  kRight,
  kWrong,       // other numbers than the definitions give, or written where nothing belongs
  kCallsOff,    // the calls themselves give other numbers, so that nothing can be compared with them
  kUnfinished,  // within the limit
  kCrashed,     // a signal of its own
  kKilled,      // by the system or a person
  kNotCompiled,
  kFailed,  // what a trial needs was not there: memory, a process, a library
};
std::string_view trial_end_text(TrialEnd end);  // "did not finish"; empty for kRight

struct TrialResult {
  std::string failure;  // why the kernel is not used, as words of a sentence; empty: it is right
  std::vector<RegionTiming> timings = {};
  // Of a kernel with products: the cuts that were timed, and the fastest for one row and for several.
  int one = CutKernel::kNoCut, several = CutKernel::kNoCut;
  std::vector<CutTime> cuts = {};
  TrialEnd end = TrialEnd::kRight;

  // Whether another trial would end the same way: not where the machine had no time, no memory or too much noise.
  bool lasts() const;
  // Right, faster with some number of rows, and slower with none.
  bool wins() const;
};

// Of a kernel that was not found right.
TrialResult failed_trial(TrialEnd end, std::string why);
TrialResult unfinished_trial(int limit_s);
// Of a process that ended without a result, by its status as waitpid gives it.
TrialResult ended_trial(int status);

Json trial_to_json(const TrialResult& result);
TrialResult trial_from_json(const Json& json);

struct TrialOptions {
  GraphPhase phase = GraphPhase::kDecode;
  std::vector<int64_t> rows = {1, 32};  // that are timed
  int threads = 1;
  uint64_t seed = 0;
  int limit_s = 60;
  double timing_s = 0.4;  // for each number of rows, about; slow calls are timed less often
  Device device = kCpu;
};

// Right: within the bounds of the judge (validate/compare.h) of what the definitions give in double, on poisoned
// outputs, at several numbers of rows.
// On the CPU only: a device that this process has used does not work in a copy of it (trial_process.h).
TrialResult try_kernel(const GraphBody& flat, const FoundRegion& found, RegionKernel& kernel,
                       const TrialOptions& options);

// The same in this process.
TrialResult try_kernel_here(const GraphBody& flat, const FoundRegion& found, RegionKernel& kernel,
                            const TrialOptions& options);

}  // namespace fk
