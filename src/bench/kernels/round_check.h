// RoundCheck: checks the outputs when all calls of a round have returned (output_check.h describes how).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "bench/kernels/fresh_inputs.h"
#include "bench/kernels/launch_sides.h"
#include "bench/kernels/output_check.h"
#include "candidate/verdict.h"
#include "core/rng.h"
#include "sandbox/call_memory.h"
#include "validate/judge.h"

namespace fk {

// The calls of a round and the memory they wrote to.
struct RoundOutputs {
  const CallMemory& memory;
  std::span<const int> calls;                    // slots
  std::array<int, LaunchSides::kTimed> writers;  // of baseline, candidate and control
  uint8_t pattern = 0;                           // fill pattern of the margins and, before the calls, of the outputs
  bool judged = false;                           // all calls had the same inputs, and the round is not timed
};

class RoundCheck {
 public:
  // `judge` has the oracle, bound to the weights that all sides have.
  RoundCheck(const OperatorInfo& op, const Node& root, const Workload& workload, Judge& judge, FreshInputs& inputs,
             uint64_t seed);

  std::optional<Failure> check(const RoundOutputs& round);

  bool oracle_is_quick() const { return outputs_.oracle_is_quick(); }
  int64_t elements() const { return outputs_.elements(); }
  int judged() const { return outputs_.judged(); }

 private:
  bool to_oracle(bool judged_round) const;
  std::optional<Failure> check_repeats(const RoundOutputs& round) const;

  OutputCheck outputs_;
  FreshInputs& inputs_;
  Stream random_;
  uint64_t draws_ = 0;
};

}  // namespace fk
