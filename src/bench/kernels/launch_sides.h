// LaunchSides: the processes that are judged and timed together. The first launch of a timing goes on with those of the
// judgement, so no candidate can tell from its process which of the two it is there for.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "candidate/runner/process_subject.h"
#include "candidate/verdict.h"

namespace fk {

class LaunchSides {
 public:
  // Three are timed. The fourth makes samples without a kernel; it has a process of its own and its turn like the
  // others: a process that was woken more often than another is woken sooner, which came to 1 % of a sample.
  static constexpr int kBaseline = 0, kCandidate = 1, kControl = 2, kTimed = 3;
  static constexpr int kEmpty = 3, kAll = 4;

  struct Libraries {
    std::string candidate;      // its shared object; empty: the baseline plays the candidate
    std::string baseline = {};  // plays the baseline and the control instead of it
  };
  // Started in this order. Without timing there are only the baseline and the candidate. `options` has no library.
  LaunchSides(const RunnerOptions& options, const Libraries& libraries, const std::array<int, kAll>& order, bool timed,
              uint64_t seed = secret_number());

  bool takes_part(int side) const { return sides_[static_cast<size_t>(side)] != nullptr; }
  ProcessSubject& operator[](int side) { return *sides_[static_cast<size_t>(side)]; }
  RunnerProcess& process(int side) { return (*this)[side].process(); }

  ProcessSubject& candidate() { return (*this)[kCandidate]; }
  // The baseline, with every call made on the control and the fourth too, so that all have done the same before they
  // are timed.
  Subject& baseline() { return together_; }

  // What the candidate did wrong; of the others, that the task is at fault.
  std::optional<Failure> failure(int side);

  // Ends all of them together; the first failure on the way out, if any.
  std::optional<Failure> finish();

 private:
  class Together final : public Subject {
   public:
    explicit Together(LaunchSides& sides) : sides_(sides) {}
    std::optional<Failure> bind(std::span<const Tensor> params) override;
    CallOutcome call(const CallData& data, Placement placement) override;

   private:
    LaunchSides& sides_;
  };

  std::array<std::unique_ptr<ProcessSubject>, kAll> sides_;
  Together together_{*this};
};

}  // namespace fk
