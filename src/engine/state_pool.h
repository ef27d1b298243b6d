// StatePool: the memory of a model's states. Per-token states are stored in blocks, with one block table for all of
// them; per-sequence states have a slot for each sequence. Sequences allocate and free both.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/memory.h"
#include "ops/state.h"

namespace fk {

class StatePool {
 public:
  // States without their own dtype have that of `activations`. Pages get memory only when used.
  StatePool(const std::vector<StateSpec>& states, DType activations, const StateRoom& room, Device device = kCpu);

  std::span<const View> states() const { return views_; }  // in the order of the specs
  const StateRoom& room() const { return room_; }
  bool has_slots() const { return has_slots_; }
  size_t size_bytes() const;

  // Throws Error with the numbers if none is free.
  int32_t take_block();
  void give_back_block(int32_t block);
  // A slot whose states are zero; negative if there are no per-sequence states.
  int32_t take_slot();
  void give_back_slot(int32_t slot);
  // Zeroes the states of a slot; nothing for a negative one.
  void clear_slot(int32_t slot) const;
  // Copies the states of a slot to another one.
  void copy_slot(int32_t from, int32_t to) const;

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
