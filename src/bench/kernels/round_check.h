// RoundCheck: checks the outputs when all calls of a round have returned (output_check.h describes how).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

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
  bool judged = false;                           // the round is not timed, and has inputs of one more family
};

class RoundCheck {
 public:
  // `judge` has the oracle, bound to the weights that all sides have.
  RoundCheck(const OperatorInfo& op, const Node& root, const Workload& workload, Judge& judge, FreshInputs& inputs,
             uint64_t seed);

  // Changes the inputs of some calls of a round, before they are made. Some get those of earlier calls of this launch,
  // in judged rounds always, and must write the same bits; in judged rounds another one gets a family that is never
  // timed. No two calls of a round have equal inputs: a candidate can read all of them, and would know what such a
  // round is for.
  void prepare(std::span<const int> calls, bool judged_round);
  std::optional<Failure> check(const RoundOutputs& round);
  void begin_launch() { earlier_.clear(); }

  int64_t elements() const { return outputs_.elements(); }
  int judged() const { return outputs_.judged(); }

 private:
  bool to_oracle(bool judged_round) const;
  size_t drawn_call(std::span<const int> calls) const;
  // The candidate, and on a CPU the others too, in random order. What was read is in the caches when it is written the
  // next time: reading only the candidate's outputs made it 3 % faster than an identical kernel on x86-64. A GPU's
  // caches do not depend on what is read between samples.
  std::vector<int> sides_to_read(const CallMemory& memory);
  std::optional<Failure> check_margins(const RoundOutputs& round);
  std::vector<uint64_t> written_by_candidate(const RoundOutputs& round, int slot);
  std::optional<Failure> check_repeats(const RoundOutputs& round);

  // A call, and what the candidate wrote.
  struct Earlier {
    FreshInputs::Choice inputs;
    std::vector<uint64_t> written;
  };

  OutputCheck outputs_;
  FreshInputs& inputs_;
  Stream random_;
  uint64_t draws_ = 0;
  std::vector<Earlier> earlier_;
  std::vector<int> repeated_;   // slots of this round that have their inputs
  std::optional<int> untimed_;  // the slot with a family that is never timed
};

}  // namespace fk
