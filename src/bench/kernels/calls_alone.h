// CallsAlone: detects calls that are faster in a batch than alone.
//
// A call that can see the next calls may do part of their work or share its own: read weights once for all of them,
// prefetch their inputs, overlap with them on other threads or on a GPU. A single call in a sample cannot. So a few
// samples of every launch have one call, and the candidate's gain in them is compared with its gain in the ranked
// samples. Every side is a bit slower alone, because a process that was asleep has colder caches.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace fk {

class CallsAlone {
 public:
  static constexpr size_t kSides = 3;  // baseline, candidate, control
  using OfSides = std::array<double, kSides>;

  // The mean time of a call alone in its sample, in ns, in one launch.
  void add(const OfSides& alone) { alone_.push_back(alone); }

  bool empty() const { return alone_.empty(); }
  OfSides alone_ns() const;  // medians

  // Why a gain of the candidate is not ranked, given the time of a call in a batch; empty if it may be ranked.
  std::string objection(double baseline_ns, double candidate_ns, int threads) const;

 private:
  std::vector<OfSides> alone_;
};

}  // namespace fk
