// FreshInputs: inputs that no call has seen before, at the price of a copy.
//
// Drawing every element anew would take longer than most kernels, so one set is drawn and each call gets its tensors
// put together from pieces of that set (core/pieces.h). Only what describes the batch (positions, lengths, tables)
// stays. Where a scenario knows the values of a real run, they are the set: each call gets real tokens in an order that
// no run had.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/pieces.h"
#include "core/rng.h"
#include "validate/input_maker.h"

namespace fk {

class FreshInputs {
 public:
  FreshInputs(const Node& root, const InputMaker& maker, const Workload& workload, uint64_t seed);

  const CallData& base() const { return base_; }
  // Chooses other inputs for a slot.
  void next(int slot);
  // What a tensor of the slot is put together from, by its number: arguments, then the KV cache. None: as in base().
  std::optional<Pieces> pieces(int slot, size_t tensor) const;
  // The inputs themselves, put together when they are first asked for: a GPU has its own way to them.
  const CallData& current(int slot);

 private:
  struct Slot {
    uint64_t key = 0;
    bool made = false;
    CallData data;
  };
  const View& base_tensor(size_t tensor) const;

  Stream random_;
  uint64_t draws_ = 0;
  CallData base_;
  std::vector<bool> renewable_;  // by argument
  std::vector<Slot> slots_;
};

}  // namespace fk
