// CallsAlone: whether calls gain by being made among others.
//
// A call that has the next ones in view may do part of their work, or share its own with them: read weights once for
// all of them, fetch what they will need, run beside them on a GPU. Alone in a sample it cannot. So a few calls of
// every launch are made both ways, on the same data, since calls take longer on some data than on others. Everybody is
// somewhat slower alone, because waking a process cools its caches; the baseline and its control say by how much.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace fk {

class CallsAlone {
 public:
  static constexpr size_t kSides = 3;  // baseline, candidate, control
  using OfSides = std::array<double, kSides>;

  // The mean time of a call, in ns, of one launch.
  void add(const OfSides& alone, const OfSides& together);

  bool empty() const { return alone_.empty(); }
  OfSides alone_ns() const;   // medians
  OfSides slower_ns() const;  // by how much a call is slower alone; medians

  // Why a gain of the candidate is not ranked; empty where nothing speaks against it.
  std::string objection(int threads) const;

 private:
  std::vector<OfSides> alone_, together_;
};

}  // namespace fk
