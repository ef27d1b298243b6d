// CallsAlone: detects calls that are faster in a batch than alone.
//
// A call that can see the next calls may do part of their work or share its own: read weights once for all of them,
// prefetch their inputs, overlap with them on other threads or on a GPU. A single call in a sample cannot. So some
// samples of every launch have one call, and a gain of the candidate counts only as far as it has it there too. Every
// side is slower alone, because a process that was asleep has colder caches.
//
// On a CPU such a call is timed until it returns, not until all threads are stopped: threads that spin are stopped
// sooner than threads that sleep. What threads write after the return is detected by LateWrites.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "measure/paired.h"

namespace fk {

class CallsAlone {
 public:
  static constexpr size_t kSides = 3;  // baseline, candidate, control
  using OfSides = std::array<double, kSides>;

  void begin_launch() { launches_.emplace_back(); }
  void add(const OfSides& ns) { launches_.back().calls.push_back(ns); }  // one call of each side, alone in its sample
  void add_empty(double ns) { launches_.back().empty.push_back(ns); }    // a sample without calls

  bool empty() const;
  OfSides alone_ns() const;  // medians, without the overhead of a sample

  // Whether the next launch should have more calls alone, given the samples of the launches so far: if a gain is to be
  // checked and these times are not known well enough for it.
  bool wants_more(std::span<const std::vector<TimePair>> launches) const;

  // By how much a call of the candidate is shorter than the baseline's, and twice the standard error of that.
  double gain_ns() const;
  double error_ns() const;

  // Reduces a gain, and the speed-up, by what exists only in a batch, on a CPU. The error of that is added to
  // `could_hide_ns`. A gain that is then too small is not ranked, and `result.invalid` says why.
  void limit(PairedResult& result, const PairedSamples& samples, const PairedSamples& control,
             PairedOptions& options) const;

  // The same on a GPU, where launches of one call differ from those in a queue: a gain is ranked or not. Why not, or
  // empty.
  std::string objection_on_gpu(double baseline_ns, double candidate_ns) const;
  void limit_on_gpu(PairedResult& paired) const;

 private:
  struct Launch {
    std::vector<OfSides> calls;
    std::vector<double> empty;
  };

  static std::vector<double> gains(const Launch& launch);
  double median_of(size_t side) const;  // of all calls, overhead included

  std::vector<Launch> launches_;
};

// LateWrites: whether outputs change after the first thread of a call has returned, while the others are being stopped.
// Looks at random places only, so that looking is quick.
class LateWrites {
 public:
  LateWrites(std::span<const View> written, uint64_t secret);

  void look();         // when the call has returned
  bool found() const;  // when all threads are stopped

 private:
  struct Piece {
    const std::byte* at;
    size_t bytes;
  };
  std::vector<Piece> pieces_;
  std::vector<std::byte> seen_;
};

}  // namespace fk
