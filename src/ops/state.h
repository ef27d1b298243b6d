// StateSpec: a tensor that an operator keeps between calls (keys and values of earlier tokens, a recurrent state). It
// is declared in the contract like weights, allocated by the engine or the judge, and passed in the context.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/tensor.h"

namespace fk {

enum class StateKind : uint8_t {
  // One entry for every token of a sequence, in pages addressed by a block table: [blocks, page size, shape...].
  kPerToken,
  // One entry for every sequence: [slots, shape...]. The slot is zeroed when a sequence is admitted; an operator uses
  // its content as the state, whether the sequence has a context or not.
  kPerSequence,
  // The same, but written only during prefill and read afterwards (keys of an encoder's output).
  kPerSequenceFixed,
};

struct StateSpec {
  std::string
      name;  // relative to its operator, or the full path once collected: "model.layers.0.self_attn.attn.key_cache"
  StateKind kind = StateKind::kPerToken;
  Shape shape;                      // of one token's or one sequence's entry
  std::optional<DType> dtype = {};  // none: that of the activations

  bool per_token() const { return kind == StateKind::kPerToken; }
};

inline constexpr int64_t kDefaultPageSize = 16;  // in tokens

// The capacity of a pool of states.
struct StateRoom {
  int64_t blocks = 0;  // of page_size tokens each
  int64_t page_size = kDefaultPageSize;
  int64_t slots = 0;  // sequences
};

// The tensor of a state for a pool of this capacity; `activations` is the dtype of states without their own.
TensorSpec state_tensor(const StateSpec& spec, const StateRoom& room, DType activations);

}  // namespace fk
