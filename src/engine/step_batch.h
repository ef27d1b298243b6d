// StepBatch: the flat tensors and attention metadata of one forward pass, in memory that is allocated once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/mirrored.h"
#include "ops/forward_context.h"

namespace fk {

// New tokens of one sequence, and its state.
struct StepItem {
  std::span<const int64_t> tokens;
  int64_t context_len = 0;          // tokens already in the states
  std::span<const int32_t> blocks;  // enough for context and new tokens
  int32_t state_slot = -1;          // of the per-sequence states
};

class StepBatch {
 public:
  StepBatch(int64_t max_tokens, int64_t max_sequences, int64_t max_blocks_per_sequence, int64_t page_size,
            Device device = kCpu);

  // Lays the items out, decoding ones first. Allocates nothing.
  void assemble(std::span<const StepItem> items);

  const AttentionMetadata& attention() const { return metadata_; }
  View input_ids() const { return ids_.view().narrow(0, 0, metadata_.num_tokens()); }
  View positions() const { return positions_.view().narrow(0, 0, metadata_.num_tokens()); }
  View logits_indices() const { return logits_.view().narrow(0, 0, num_items_); }  // of item i at row i

 private:
  struct Group {
    Group(int64_t max_sequences, int64_t width, Device device);
    void clear();
    void add(const StepItem& item, int64_t page_size);
    SequenceGroup view() const;
    void push() const;

    Mirrored<int32_t> cu_q, cu_k, lens, table, state_slots;
    int64_t sequences = 0, tokens = 0, keys = 0, width;
  };

  void place(const StepItem& item, int64_t row, Group& group, int64_t first_token);

  int64_t max_tokens_, max_sequences_, page_size_;
  Mirrored<int64_t> ids_, positions_, slots_, logits_;
  Group decode_, prefill_;
  AttentionMetadata metadata_;
  int64_t num_items_ = 0;
};

}  // namespace fk
