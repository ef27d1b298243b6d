// What --cold cannot empty from the caches.
#pragma once

#include <fmt/format.h>

#include <cstdint>

#include "bench/kernels/pair_timer.h"

namespace fk {

// Before a cold sample the judge evicts tensors and weights, but not memory that a candidate allocates itself: a copy
// of the weights would stay warm. So a candidate with more memory than the baseline is not ranked before it.
inline void refuse_private_memory(TimingResult& result) {
  constexpr int64_t kAllowedKib = 1024;  // its code, and what varies from process to process
  const int64_t own = result.candidate_peak_kib - result.baseline_peak_kib;
  if (result.paired.verdict != SpeedVerdict::kFaster || own <= kAllowedKib) return;
  result.paired.verdict = SpeedVerdict::kUnresolved;
  result.paired.invalid = fmt::format(
      "It keeps {:.1f} MiB of its own, which --cold does not empty from the caches; time it without --cold.",
      static_cast<double>(own) / 1024);
}

}  // namespace fk
