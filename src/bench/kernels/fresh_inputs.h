// FreshInputs: inputs that no call has seen before, at the price of a copy.
//
// Drawing every element anew would take longer than most kernels, so one set is drawn and each call gets its tensors
// put together from pieces of that set, chosen at random: the same distribution, other content in every row. Only what
// describes the batch (positions, lengths, tables) stays. Where a scenario knows the values of a real run, they are the
// set: each call gets real tokens in an order that no run had.
#pragma once

#include <cstdint>
#include <vector>

#include "core/rng.h"
#include "validate/input_maker.h"

namespace fk {

class FreshInputs {
 public:
  FreshInputs(const Node& root, const InputMaker& maker, const Workload& workload, uint64_t seed);

  const CallData& base() const { return base_; }
  const CallData& next(int slot);  // replaces what the slot had
  const CallData& current(int slot) const { return slots_[static_cast<size_t>(slot)]; }

 private:
  void renew(const View& from, const View& to);

  Stream random_;
  uint64_t draws_ = 0;
  CallData base_;
  std::vector<bool> renewable_;  // by argument
  std::vector<CallData> slots_;
};

}  // namespace fk
