#include "engine/step_batch.h"

#include <algorithm>

#include "core/check.h"

namespace fk {

StepBatch::Group::Group(int64_t max_sequences, int64_t blocks, Device device)
    : cu_q({max_sequences + 1}, device),
      cu_k({max_sequences + 1}, device),
      lens({max_sequences}, device),
      table({max_sequences, blocks}, device),
      state_slots({max_sequences}, device),
      width(blocks) {}

void StepBatch::Group::clear() { sequences = tokens = keys = 0; }

void StepBatch::Group::add(const StepItem& item, int64_t page_size) {
  auto len = static_cast<int32_t>(item.context_len) + static_cast<int32_t>(item.tokens.size());
  FK_CHECK(static_cast<int64_t>(item.blocks.size()) * page_size >= len &&
           static_cast<int64_t>(item.blocks.size()) <= width);
  lens.host()[sequences] = len;
  state_slots.host()[sequences] = item.state_slot;
  std::copy(item.blocks.begin(), item.blocks.end(), table.host() + sequences * width);
  ++sequences;
  tokens += static_cast<int64_t>(item.tokens.size());
  keys += len;
  cu_q.host()[sequences] = static_cast<int32_t>(tokens);
  cu_k.host()[sequences] = static_cast<int32_t>(keys);
}

SequenceGroup StepBatch::Group::view() const {
  return {.num_sequences = sequences,
          .num_tokens = tokens,
          .cu_seqlens_q = cu_q.view().narrow(0, 0, sequences + 1),
          .cu_seqlens_k = cu_k.view().narrow(0, 0, sequences + 1),
          .seq_lens = lens.view().narrow(0, 0, sequences),
          .block_table = table.view().narrow(0, 0, sequences),
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
      page_size_(page_size),
      ids_({max_tokens}, device),
      positions_({max_tokens}, device),
      slots_({max_tokens}, device),
      logits_({max_sequences}, device),
      decode_(max_sequences, max_blocks_per_sequence, device),
      prefill_(max_sequences, max_blocks_per_sequence, device) {}

void StepBatch::assemble(std::span<const StepItem> items) {
  auto decodes = [](const StepItem& item) { return item.tokens.size() == 1 && item.context_len > 0; };
  FK_CHECK(static_cast<int64_t>(items.size()) <= max_sequences_);
  decode_.clear();
  prefill_.clear();
  int64_t decoding = std::count_if(items.begin(), items.end(), decodes);
  for (size_t i = 0; i < items.size(); ++i) {
    if (decodes(items[i]))
      place(items[i], static_cast<int64_t>(i), decode_, 0);
    else
      place(items[i], static_cast<int64_t>(i), prefill_, decoding);
  }
  num_items_ = static_cast<int64_t>(items.size());
  metadata_.decode = decode_.view();
  metadata_.prefill = prefill_.view();
  int64_t tokens = metadata_.num_tokens();
  metadata_.slot_mapping = slots_.view().narrow(0, 0, tokens);
  metadata_.page_size = page_size_;
  ids_.push(tokens);
  positions_.push(tokens);
  slots_.push(tokens);
  logits_.push(num_items_);
  decode_.push();
  prefill_.push();
}

void StepBatch::place(const StepItem& item, int64_t row, Group& group, int64_t first_token) {
  int64_t at = first_token + group.tokens;
  group.add(item, page_size_);
  FK_CHECK(!item.tokens.empty() && first_token + group.tokens <= max_tokens_);
  for (size_t i = 0; i < item.tokens.size(); ++i, ++at) {
    int64_t position = item.context_len + static_cast<int64_t>(i);
    ids_.host()[at] = item.tokens[i];
    positions_.host()[at] = position;
    slots_.host()[at] = item.blocks[static_cast<size_t>(position / page_size_)] * page_size_ + position % page_size_;
  }
  logits_.host()[row] = at - 1;
}

}  // namespace fk
