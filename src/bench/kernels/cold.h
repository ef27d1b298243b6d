// What --cold cannot empty from the caches.
#pragma once

#include <fmt/format.h>

#include <cstdint>

#include "bench/kernels/pair_timer.h"

namespace fk {

// Before a cold sample the judge evicts tensors and weights, but not memory that a candidate allocates itself: a copy
// of the weights would stay warm. So a candidate that has more such memory than the baseline is not ranked before it,
// even if it is scratch memory. Peak memory would not show it: a candidate can give back pages of the weights.
inline void refuse_private_memory(TimingResult& result) {
  constexpr int64_t kAllowedKib = 1024;  // its code, and what varies from process to process
  const int64_t own = result.candidate_own_kib - result.baseline_own_kib;
  if (result.paired.verdict != SpeedVerdict::kFaster || own <= kAllowedKib) return;
  result.paired.verdict = SpeedVerdict::kUnresolved;
  result.paired.invalid = fmt::format(
      "It has {:.1f} MiB of its own (copies, scratch), which --cold does not empty from the caches; time it without "
      "--cold.",
      static_cast<double>(own) / 1024);
}

}  // namespace fk
