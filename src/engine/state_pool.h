// StatePool: the memory of a model's states. Per-token states lie in blocks, with one block table for all of them;
// per-sequence states have a slot for each sequence. Both are handed out to sequences and taken back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/memory.h"
#include "ops/state.h"

namespace fk {

class StatePool {
 public:
  // States without a dtype of their own have that of `activations`. Pages are only touched when used.
  StatePool(const std::vector<StateSpec>& states, DType activations, const StateRoom& room, Device device = kCpu);

  std::span<const View> states() const { return views_; }  // in the order given
  const StateRoom& room() const { return room_; }
  bool has_slots() const { return has_slots_; }
  size_t size_bytes() const;

  // Throws Error with the numbers when none is left.
  int32_t take_block();
  void give_back_block(int32_t block);
  // A slot whose states are zero; negative where no state is kept per sequence.
  int32_t take_slot();
  void give_back_slot(int32_t slot);

  static double size_bytes(const std::vector<StateSpec>& states, DType activations, const StateRoom& room);

 private:
  StateRoom room_;
  bool has_slots_ = false;
  std::vector<Tensor> tensors_;
  std::vector<View> views_;
  std::vector<View> per_sequence_;
  std::vector<int32_t> free_blocks_, free_slots_;  // last in, first out
};

}  // namespace fk
