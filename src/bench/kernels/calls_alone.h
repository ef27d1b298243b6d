// CallsAlone: whether calls gain by being made among others.
//
// A call that has the next ones in view may do part of their work, or share its own with them: read weights once for
// all of them, fetch what they will need, run beside them on other threads or on a GPU. Alone in a sample it cannot. So
// a few calls of every launch are made alone, and what the candidate gains there is held against what it gains in the
// samples that are ranked. Everybody is somewhat slower alone, because waking a process cools its caches.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace fk {

class CallsAlone {
 public:
  static constexpr size_t kSides = 3;  // baseline, candidate, control
  using OfSides = std::array<double, kSides>;

  // The mean time of a call that is made alone, in ns, in one launch.
  void add(const OfSides& alone) { alone_.push_back(alone); }

  bool empty() const { return alone_.empty(); }
  OfSides alone_ns() const;  // medians

  // Why a gain of the candidate is not ranked, given what a call takes among others; empty where nothing speaks against
  // it.
  std::string objection(double baseline_ns, double candidate_ns, int threads) const;

 private:
  std::vector<OfSides> alone_;
};

}  // namespace fk
