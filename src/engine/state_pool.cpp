#include "engine/state_pool.h"

#include <cstring>

#include "core/check.h"
#include "core/device_runtime.h"
#include "core/error.h"

namespace fk {
namespace {

std::vector<int32_t> all_below(int64_t n) {
  std::vector<int32_t> list;
  for (int64_t i = n - 1; i >= 0; --i) list.push_back(static_cast<int32_t>(i));
  return list;
}

}  // namespace

StatePool::StatePool(const std::vector<StateSpec>& states, DType activations, const StateRoom& room, Device device)
    : room_(room) {
  FK_CHECK(room.page_size > 0 && (room.page_size & (room.page_size - 1)) == 0,
           "a page must hold a power of two of tokens");
  for (const StateSpec& s : states) {
    tensors_.emplace_back(state_tensor(s, room, activations), device);
    views_.push_back(tensors_.back());
    if (!s.per_token()) per_sequence_.push_back(views_.back());
  }
  free_blocks_ = all_below(room.blocks);
  has_slots_ = !per_sequence_.empty();
  if (has_slots_) free_slots_ = all_below(room.slots);
}

size_t StatePool::size_bytes() const {
  size_t bytes = 0;
  for (const View& v : views_) bytes += v.size_bytes();
  return bytes;
}

double StatePool::size_bytes(const std::vector<StateSpec>& states, DType activations, const StateRoom& room) {
  double bytes = 0;
  for (const StateSpec& s : states) bytes += static_cast<double>(state_tensor(s, room, activations).size_bytes());
  return bytes;
}

int32_t StatePool::take_block() {
  if (free_blocks_.empty())
    throw Error(
        "The KV cache is full: all {} blocks of {} tokens are in use; allow a longer context or run fewer sequences.",
        room_.blocks, room_.page_size);
  int32_t block = free_blocks_.back();
  free_blocks_.pop_back();
  return block;
}

void StatePool::give_back_block(int32_t block) {
  FK_CHECK(block >= 0 && block < room_.blocks);
  free_blocks_.push_back(block);
}

int32_t StatePool::take_slot() {
  if (!has_slots_) return -1;
  if (free_slots_.empty())
    throw Error("All {} slots for the states of sequences are in use; run fewer sequences at a time.", room_.slots);
  int32_t slot = free_slots_.back();
  free_slots_.pop_back();
  clear_slot(slot);
  return slot;
}

void StatePool::clear_slot(int32_t slot) const {
  if (slot < 0) return;
  FK_CHECK(slot < room_.slots);
  for (const View& v : per_sequence_) {
    View own = v.select(0, slot);
    if (own.device() == kCpu)
      std::memset(own.data(), 0, own.size_bytes());
    else
      device_runtime(own.device()).fill(own.data(), std::byte{0}, own.size_bytes());
  }
}

void StatePool::copy_slot(int32_t from, int32_t to) const {
  FK_CHECK(from >= 0 && to >= 0 && from < room_.slots && to < room_.slots);
  for (const View& v : per_sequence_) {
    const View source = v.select(0, from), target = v.select(0, to);
    if (source.device() == kCpu)
      std::memcpy(target.data(), source.data(), source.size_bytes());
    else
      device_runtime(source.device()).copy(target.data(), source.data(), source.size_bytes());
  }
}

void StatePool::give_back_slot(int32_t slot) {
  if (slot < 0) return;
  FK_CHECK(slot < room_.slots);
  free_slots_.push_back(slot);
}

}  // namespace fk
