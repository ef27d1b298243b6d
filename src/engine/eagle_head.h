// EagleHead: passes of an EAGLE-3 head (ops/l4/eagle3_llama_for_causal_lm.h), and the hidden states that go into them:
// the target's, which it keeps with the keys and values of its tokens, or the head's own of the guess before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/model.h"
#include "engine/step_batch.h"
#include "ops/l1/index_select.h"
#include "ops/op.h"

namespace fk {

class EagleHead {
 public:
  // target_states: of each layer [blocks, page size, D], in blocks with the numbers of the head's own states. Throws
  // Error where a token that the head guesses is outside the target's vocabulary. The model must outlive it.
  EagleHead(const Model& model, std::span<const View> target_states, int64_t max_sequences);

  // What the next passes take: the target's hidden states, or those kept of these rows, one token each.
  void take_target_states() { own_rows_ = 0; }
  void take_own_states(std::span<const size_t> rows);
  void pass(Context& ctx, const StepBatch& batch, const View& logits);
  // Keeps the hidden states that the logits of the last pass were computed from, as those of these rows.
  void keep_states(std::span<const size_t> rows);

 private:
  View states_of_target(Context& ctx, const View& slots) const;
  void copy_rows(const View& from, size_t from_row, const View& to, size_t to_row, size_t count) const;

  const Model& model_;
  std::vector<View> target_states_;  // of each layer [tokens, D]
  Builder builder_;
  Op<IndexSelect> select_;
  Tensor last_;           // of the last pass
  Tensor kept_;           // by row of the plan
  Tensor own_;            // into the next pass
  int64_t own_rows_ = 0;  // of them; 0: the target's go there
};

// Which hidden states of the target a head wants, as ModelConfig::set_aux_hidden_states takes them. Throws UsageError
// where the target has too few layers for the default, or not these.
std::vector<int64_t> wanted_hidden_states(const ModelSource& head, const ModelSource& target);

}  // namespace fk
