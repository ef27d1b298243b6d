// CallMemory: the shared tensors of calls with equal shapes. Inputs are one segment that all runners read; the tensors
// that a call writes (states, outputs) are separate for each runner.
//
// On a GPU the data of a call is staged in the judge's own memory, so that every side gets it by a copy on the device.
// Inputs are masked until the runner receives the key, in stream order: work started before the call reads only masked
// data.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "candidate/subject.h"
#include "core/pieces.h"
#include "ops/materialize.h"
#include "sandbox/runner_process.h"
#include "sandbox/shared_tensors.h"

namespace fk {

class CallMemory {
 public:
  // Memory for `slots` calls shaped like `data`, for `writers` runners. `root` gives roles and outputs.
  CallMemory(const Node& root, const CallData& data, int slots, int writers, Device device = kCpu);

  int slots() const { return slots_; }
  Device device() const { return device_; }
  const SharedTensors& inputs() const { return *inputs_; }
  const SharedTensors& written(int writer) const { return *written_[static_cast<size_t>(writer)]; }
  // Call this after the runner has mapped both.
  CallPlan plan(int slot, int inputs_segment, int written_segment) const;

  // Copies the data of a call to the device, where no runner can read it. Does nothing on the CPU.
  void stage(int slot, const CallData& data) const;
  // The same for data that is built on the device: made_from(slot, tensor) returns the source of a tensor, by the index
  // of the argument or, after the arguments, of the context's state; none: the tensor is as in `data`. Sets and tensors
  // of `data` are copied to the device once, and must not change or move while this object lives.
  struct MadeFrom {
    View set;  // dense, with as many elements as the pieces need
    Pieces pieces;
  };
  using DataOf = std::function<const CallData&(int slot)>;
  using MadeFromOf = std::function<std::optional<MadeFrom>(int slot, size_t tensor)>;
  void stage_pieces(const DataOf& data_of, const MadeFromOf& made_from);  // all slots
  // Called before the calls: copies their inputs (runners can read them only now, on a GPU only with `key`), sets
  // states to their values in the data, and fills outputs and all margins with a pattern (NaN for floats).
  void fill(std::span<const int> slots, int writer, const DataOf& data_of, uint8_t pattern, uint64_t key) const;

  // Waits until all copies are done.
  void settle() const;

  // Called after the calls: the first margin that was overwritten, if any.
  std::optional<Failure> check_margins(std::span<const int> slots, int writer, uint8_t pattern) const;
  std::optional<Failure> check_inputs(int slot, const CallData& data) const;
  // Fingerprints of everything calls write, tensor by tensor: states and outputs in the order of forward, then the
  // context's states.
  std::vector<uint64_t> fingerprints(std::span<const int> slots, int writer) const;

  // The written tensors in place, in the order of fingerprints().
  std::vector<View> written_tensors(int slot, int writer) const;

  // Views of states and outputs on the CPU, in the order of forward; inputs stay empty. On a GPU they are copies, valid
  // until this is called again for the same slot and writer.
  std::vector<OptView> written_args(int slot, int writer) const;
  std::vector<View> states(int slot, int writer) const;  // the context's

 private:
  struct Arg {
    bool present = false;
    bool written = false;
    size_t tensor = 0;  // in its segment, of slot 0
    bool output = false;
  };
  size_t in_slot(size_t tensor, int slot, size_t per_slot) const {
    return tensor + static_cast<size_t>(slot) * per_slot;
  }
  size_t input(size_t tensor, int slot) const { return in_slot(tensor, slot, inputs_per_slot_); }
  size_t output(size_t tensor, int slot) const { return in_slot(tensor, slot, written_per_slot_); }

  struct Place {
    View from;          // the tensor of `data`
    View to;            // its position in shared memory
    size_t offset = 0;  // where it is staged
    size_t tensor = 0;  // its index among arguments and states, or kMetadata
    static constexpr size_t kMetadata = SIZE_MAX;
  };
  std::vector<View> metadata_of(const CallData& data) const;
  template <class Visit>
  void for_inputs(int slot, const CallData& data, const Visit& visit) const;
  template <class Visit>
  void for_states(int slot, int writer, const CallData& data, const Visit& visit) const;
  std::byte* staged(int slot, size_t offset) const {
    return staging_.data() + static_cast<size_t>(slot) * staging_per_slot_ + offset;
  }
  const std::byte* on_device(const View& set);
  void fill_on_cpu(int slot, int writer, const CallData& data, uint8_t pattern) const;
  void add_writes(int slot, int writer, const CallData& data, uint8_t pattern, std::vector<DeviceWrite>& writes) const;
  void add_margins(int slot, int writer, std::vector<DeviceRange>& ranges) const;
  View on_cpu(int slot, int writer, size_t tensor) const;

  int slots_;
  Device device_;
  std::vector<Arg> args_;
  size_t inputs_per_slot_ = 0, written_per_slot_ = 0;
  // Only for calls with states: each tensor needs a mapping of its own in each runner.
  bool has_metadata_ = false;
  size_t metadata_ = 0;                       // index of the first metadata tensor among the inputs
  size_t first_state_ = 0, state_count_ = 0;  // the context's states among the written tensors
  int64_t page_size_ = 0, decode_sequences_ = 0, decode_tokens_ = 0, prefill_sequences_ = 0, prefill_tokens_ = 0;
  std::unique_ptr<SharedTensors> inputs_;
  std::vector<std::unique_ptr<SharedTensors>> written_;
  // On a GPU only.
  Buffer staging_;                      // slot by slot: inputs, then states, in the order of the lists above
  std::map<const void*, Buffer> sets_;  // sets from which slots are built, by their address on the CPU
  size_t staging_per_slot_ = 0;
  size_t staged_inputs_ = 0;                                          // bytes of inputs in a slot; states follow
  mutable std::map<uint8_t, std::vector<uint64_t>> painted_margins_;  // fingerprints by pattern; equal for all slots
  mutable std::map<std::pair<int, size_t>, std::unique_ptr<Tensor>> mirrors_;  // by writer and tensor
};

// The weights of `root`, in the order of collect_params, in memory that runners may read.
std::unique_ptr<SharedTensors> share_params(const Node& root, std::span<const Tensor> params, Device device = kCpu);
// A failure if a runner changed one of them.
std::optional<Failure> check_params(const SharedTensors& params);

Tensor copy_of(const View& view);  // dense

// 64 bits that change when any byte does; fast enough to run over every output of every call.
uint64_t hash_bytes(const void* data, size_t bytes, uint64_t seed);

}  // namespace fk
