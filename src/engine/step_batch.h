// StepBatch: the flat tensors and attention metadata of one forward pass, in memory that is allocated once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/staged.h"
#include "ops/forward_context.h"

namespace fk {

// New tokens of one sequence, and its state.
struct StepItem {
  std::span<const int64_t> tokens;
  int64_t context_len = 0;          // tokens already in the states
  std::span<const int32_t> blocks;  // enough for context and new tokens; negative: freed, no layer sees it any more
  int32_t state_slot = -1;          // of the per-sequence states
  int64_t logits = 1;               // of how many of its last tokens they are wanted
  int64_t prompt_logits = 0;        // and of how many of its first ones; these come after those of all items
};

// The shape of a step that is recorded once and replayed for other sequences. 0: as the items need it.
struct StepShape {
  int64_t decode_rows = 0;  // rows of length 0 behind those that decode; only for steps without prefill
  int64_t table_width = 0;  // blocks of a row of the block table; 0: the most there can be
};

class StepBatch {
 public:
  StepBatch(int64_t max_tokens, int64_t max_sequences, int64_t max_blocks_per_sequence, int64_t page_size,
            Device device = kCpu);

  // Lays the items out, decoding ones first. Allocates nothing.
  void assemble(std::span<const StepItem> items, const StepShape& shape = {});

  const AttentionMetadata& attention() const { return metadata_; }
  View input_ids() const { return ids_.view().narrow(0, 0, metadata_.num_tokens()); }
  View positions() const { return positions_.view().narrow(0, 0, metadata_.num_tokens()); }
  // Of the tokens whose logits are wanted, in the order of the items: the last ones of all, then the first ones.
  View logits_indices() const { return logits_.view().narrow(0, 0, num_logits_); }

 private:
  struct Group {
    Group(int64_t max_sequences, int64_t width, const StagingTurns& turns);
    void clear(int64_t table_width);
    void add(const StepItem& item, int64_t page_size);
    void add_padding();
    SequenceGroup view() const;
    void push() const;

    Staged<int32_t> cu_q, cu_k, lens, table, state_slots;
    int64_t sequences = 0, tokens = 0, keys = 0, width = 0;
  };

  void place(const StepItem& item, Group& group, int64_t first_token);
  void place_padding();
  void place_prompt_logits(std::span<const StepItem> items, int64_t decoding);

  int64_t max_tokens_, max_sequences_, max_blocks_, page_size_;
  StagingTurns turns_;
  Staged<int64_t> ids_, positions_, slots_, logits_;
  Group decode_, prefill_;
  AttentionMetadata metadata_;
  int64_t num_logits_ = 0;
  bool prompt_logits_ = false;  // some item wants such
};

}  // namespace fk
