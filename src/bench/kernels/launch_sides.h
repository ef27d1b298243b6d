// LaunchSides: the processes that are judged and timed together. The first launch of a timing continues with those of
// the judgement, so a candidate cannot tell from its process whether it is judged or timed.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "candidate/verdict.h"
#include "sandbox/process_subject.h"

namespace fk {

class LaunchSides {
 public:
  // Three are timed. The fourth makes samples without a kernel. It has its own process and runs as often as the others:
  // a process that is woken more often wakes faster, which made a difference of 1 % of a sample.
  static constexpr int kBaseline = 0, kCandidate = 1, kControl = 2, kTimed = 3;
  static constexpr int kEmpty = 3, kAll = 4;

  struct Libraries {
    std::string candidate;      // its shared object; empty: the baseline is used as the candidate
    std::string baseline = {};  // used as baseline and control instead of the real baseline
  };
  // Started in this order. Without timing there are only the baseline and the candidate. `options` has no library.
  LaunchSides(const RunnerOptions& options, const Libraries& libraries, const std::array<int, kAll>& order, bool timed,
              uint64_t seed = secret_number());

  bool takes_part(int side) const { return sides_[static_cast<size_t>(side)] != nullptr; }
  ProcessSubject& operator[](int side) { return *sides_[static_cast<size_t>(side)]; }
  RunnerProcess& process(int side) { return (*this)[side].process(); }

  ProcessSubject& candidate() { return (*this)[kCandidate]; }
  // The baseline. Every call is also made on the control and the fourth process, so that all have the same history
  // before they are timed.
  Subject& baseline() { return together_; }

  // The failure of a side. For the baseline and the others it means that the task is invalid.
  std::optional<Failure> failure(int side);

  // Ends all of them together; the first failure while they end, if any.
  std::optional<Failure> finish();

 private:
  class Together final : public Subject {
   public:
    explicit Together(LaunchSides& sides) : sides_(sides) {}
    std::optional<Failure> refusal(const CallData& shapes) override;
    std::optional<Failure> bind(std::span<const Tensor> params) override;
    CallOutcome call(const CallData& data, Placement placement) override;

   private:
    LaunchSides& sides_;
  };

  std::array<std::unique_ptr<ProcessSubject>, kAll> sides_;
  Together together_{*this};
};

}  // namespace fk
