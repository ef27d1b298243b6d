#include "engine/step_batch.h"

#include <algorithm>

#include "core/check.h"
#include "ops/batch_invariant.h"

namespace fk {

StepBatch::Group::Group(int64_t max_sequences, int64_t blocks, const StagingTurns& turns)
    : cu_q({max_sequences + 1}, turns),
      cu_k({max_sequences + 1}, turns),
      lens({max_sequences}, turns),
      table({max_sequences, blocks}, turns),
      state_slots({max_sequences}, turns) {}

void StepBatch::Group::clear(int64_t table_width) {
  sequences = tokens = keys = 0;
  width = table_width;
  cu_q.host()[0] = cu_k.host()[0] = 0;
}

void StepBatch::Group::add(const StepItem& item, int64_t page_size) {
  auto len = static_cast<int32_t>(item.context_len) + static_cast<int32_t>(item.tokens.size());
  FK_CHECK(static_cast<int64_t>(item.blocks.size()) * page_size >= len &&
           static_cast<int64_t>(item.blocks.size()) <= width);
  lens.host()[sequences] = len;
  state_slots.host()[sequences] = item.state_slot;
  // No weight is given to a freed page, but a kernel may load it with its neighbours, and a NaN in it would stay one.
  // The first page that the sequence still has stands in its place, since other sequences may write to block 0.
  auto held = std::find_if(item.blocks.begin(), item.blocks.end(), [](int32_t block) { return block >= 0; });
  std::transform(item.blocks.begin(), item.blocks.end(), table.host() + sequences * width,
                 [&](int32_t block) { return block >= 0 ? block : *held; });
  ++sequences;
  tokens += static_cast<int64_t>(item.tokens.size());
  keys += len;
  cu_q.host()[sequences] = static_cast<int32_t>(tokens);
  cu_k.host()[sequences] = static_cast<int32_t>(keys);
}

void StepBatch::Group::add_padding() {
  lens.host()[sequences] = 0;
  state_slots.host()[sequences] = -1;
  std::fill_n(table.host() + sequences * width, width, 0);
  ++sequences;
  ++tokens;
  cu_q.host()[sequences] = static_cast<int32_t>(tokens);
  cu_k.host()[sequences] = static_cast<int32_t>(keys);
}

SequenceGroup StepBatch::Group::view() const {
  return {.num_sequences = sequences,
          .num_tokens = tokens,
          .cu_seqlens_q = cu_q.view().narrow(0, 0, sequences + 1),
          .cu_seqlens_k = cu_k.view().narrow(0, 0, sequences + 1),
          .seq_lens = lens.view().narrow(0, 0, sequences),
          .block_table = View(table.view().data(), {sequences, width}, DType::kI32, table.view().device()),
          .state_slots = state_slots.view().narrow(0, 0, sequences)};
}

void StepBatch::Group::push() const {
  if (sequences == 0) return;
  cu_q.push(sequences + 1);
  cu_k.push(sequences + 1);
  lens.push(sequences);
  table.push(sequences * width);
  state_slots.push(sequences);
}

StepBatch::StepBatch(int64_t max_tokens, int64_t max_sequences, int64_t max_blocks_per_sequence, int64_t page_size,
                     Device device)
    : max_tokens_(max_tokens),
      max_sequences_(max_sequences),
      max_blocks_(max_blocks_per_sequence),
      page_size_(page_size),
      turns_(device),
      ids_({max_tokens}, turns_),
      positions_({max_tokens}, turns_),
      slots_({max_tokens}, turns_),
      logits_({std::max(max_tokens, max_sequences)}, turns_),
      decode_(max_sequences, max_blocks_per_sequence, turns_),
      prefill_(max_sequences, max_blocks_per_sequence, turns_) {}

void StepBatch::assemble(std::span<const StepItem> items, const StepShape& shape) {
  // The attention of one query per sequence adds in another order than that of many, and which of them a token gets
  // depends on how its prompt was cut.
  const bool as_prompts = batch_invariant();
  auto decodes = [&](const StepItem& item) { return item.tokens.size() == 1 && item.context_len > 0 && !as_prompts; };
  FK_CHECK(std::max(static_cast<int64_t>(items.size()), shape.decode_rows) <= max_sequences_);
  const int64_t width = shape.table_width > 0 ? shape.table_width : max_blocks_;
  FK_CHECK(width <= max_blocks_);
  turns_.begin();
  decode_.clear(width);
  prefill_.clear(width);
  num_logits_ = 0;
  prompt_logits_ = false;
  int64_t decoding = std::count_if(items.begin(), items.end(), decodes);
  for (const StepItem& item : items) {
    if (decodes(item))
      place(item, decode_, 0);
    else
      place(item, prefill_, decoding);
  }
  FK_CHECK(shape.decode_rows == 0 || decoding == static_cast<int64_t>(items.size()));
  while (decode_.sequences < shape.decode_rows) place_padding();
  if (prompt_logits_) place_prompt_logits(items, decoding);
  metadata_.decode = decode_.view();
  metadata_.prefill = prefill_.view();
  int64_t tokens = metadata_.num_tokens();
  metadata_.slot_mapping = slots_.view().narrow(0, 0, tokens);
  metadata_.page_size = page_size_;
  ids_.push(tokens);
  positions_.push(tokens);
  slots_.push(tokens);
  logits_.push(num_logits_);
  decode_.push();
  prefill_.push();
  turns_.end();
}

void StepBatch::place(const StepItem& item, Group& group, int64_t first_token) {
  int64_t at = first_token + group.tokens;
  group.add(item, page_size_);
  FK_CHECK(!item.tokens.empty() && first_token + group.tokens <= max_tokens_);
  for (size_t i = 0; i < item.tokens.size(); ++i, ++at) {
    int64_t position = item.context_len + static_cast<int64_t>(i);
    int32_t block = item.blocks[static_cast<size_t>(position / page_size_)];
    FK_CHECK(block >= 0);
    ids_.host()[at] = item.tokens[i];
    positions_.host()[at] = position;
    slots_.host()[at] = block * page_size_ + position % page_size_;
  }
  for (int64_t i = at - item.logits; i < at; ++i) logits_.host()[num_logits_++] = i;
  prompt_logits_ = prompt_logits_ || item.prompt_logits > 0;
}

void StepBatch::place_prompt_logits(std::span<const StepItem> items, int64_t decoding) {
  int64_t decoded = 0, prefilled = decoding;
  for (const StepItem& item : items) {
    const bool decodes = item.tokens.size() == 1 && item.context_len > 0 && !batch_invariant();
    const int64_t at = decodes ? decoded++ : prefilled;
    if (!decodes) prefilled += static_cast<int64_t>(item.tokens.size());
    for (int64_t i = 0; i < item.prompt_logits; ++i) logits_.host()[num_logits_++] = at + i;
  }
}

void StepBatch::place_padding() {
  int64_t at = decode_.tokens;
  decode_.add_padding();
  FK_CHECK(decode_.tokens <= max_tokens_);
  ids_.host()[at] = positions_.host()[at] = 0;
  slots_.host()[at] = -1;
  logits_.host()[num_logits_++] = at;
}

}  // namespace fk
