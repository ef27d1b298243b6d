#include "engine/model_executor.h"

#include <algorithm>

#include "core/device_runtime.h"
#include "core/error.h"
#include "measure/memory_room.h"

namespace fk {
namespace {

const EngineOptions& checked(const Model& model, const EngineOptions& options) {
  model.config.require_task(Task::kCausalLM, model.name, "a run over prompts");
  if (options.max_context > model.config.facts.max_position_embeddings)
    throw Error("{} has a context of {} tokens, and prompt and output together need {}; ask for fewer.", model.name,
                model.config.facts.max_position_embeddings, options.max_context);
  FK_CHECK(options.max_sequences > 0 && options.max_context > 0 && options.max_step_tokens > 0);
  return options;
}

int64_t blocks_for(int64_t tokens, int64_t page_size) { return (tokens + page_size - 1) / page_size; }

int64_t blocks_per_sequence(const EngineOptions& options) { return blocks_for(options.max_context, options.page_size); }

// Checked before the states are made: their pages are only allocated on first use, much later.
StateRoom fitting_room(const Model& model, const EngineOptions& options) {
  StateRoom room{options.max_sequences * blocks_per_sequence(options), options.page_size, options.max_sequences};
  double bytes = StatePool::size_bytes(collect_states(*model.root), model.config.facts.dtype, room);
  require_memory(
      bytes, model.device,
      fmt::format("The states (keys and values) of {} sequences of {} tokens", room.slots, options.max_context),
      "ask for fewer or shorter sequences");
  return room;
}

}  // namespace

ModelExecutor::ModelExecutor(const Model& model, ThreadPool& pool, const EngineOptions& options)
    : model_(model),
      pool_(pool),
      options_(checked(model, options)),
      states_(collect_states(*model.root), model.config.facts.dtype, fitting_room(model, options), model.device),
      batch_(std::max(options.max_step_tokens, options.max_sequences), options.max_sequences,
             blocks_per_sequence(options), options.page_size, model.device),
      logits_({options.max_sequences, model.config.facts.vocab_size}, DType::kF32, model.device),
      arena_(model.device) {
  items_.reserve(static_cast<size_t>(options.max_sequences));
}

RunningSequence ModelExecutor::start() const {
  RunningSequence sequence;
  sequence.blocks.reserve(static_cast<size_t>(blocks_per_sequence(options_)));
  return sequence;
}

void ModelExecutor::finish(RunningSequence& sequence) {
  for (int32_t block : sequence.blocks) states_.give_back_block(block);
  states_.give_back_slot(sequence.state_slot);
  sequence = {};
}

void ModelExecutor::reserve(RunningSequence& sequence, int64_t new_tokens) {
  int64_t length = sequence.length + new_tokens;
  if (length > options_.max_context)
    throw Error("A sequence of {} tokens does not fit the {} this run was set up for.", length, options_.max_context);
  if (sequence.state_slot < 0) sequence.state_slot = states_.take_slot();
  while (static_cast<int64_t>(sequence.blocks.size()) < blocks_for(length, options_.page_size))
    sequence.blocks.push_back(states_.take_block());
}

Context ModelExecutor::context() {
  void* stream = model_.device == kCpu ? nullptr : device_runtime(model_.device).stream();
  return {pool_, arena_, &batch_.attention(), states_.states(), observer_, stream, model_.communicator};
}

void ModelExecutor::wait() const {
  if (model_.device != kCpu) device_runtime(model_.device).synchronize();
}

View ModelExecutor::forward(std::span<const NewTokens> items) {
  items_.clear();
  for (const NewTokens& item : items) {
    for (int64_t token : item.tokens)
      if (token < 0 || token >= model_.config.facts.vocab_size)
        throw Error("Token id {} is outside the vocabulary of {}, which has {} tokens.", token, model_.name,
                    model_.config.facts.vocab_size);
    reserve(*item.sequence, static_cast<int64_t>(item.tokens.size()));
    items_.push_back({item.tokens, item.sequence->length, item.sequence->blocks, item.sequence->state_slot});
  }
  batch_.assemble(items_);
  arena_.reset();
  Context ctx = context();
  View logits = logits_.view().narrow(0, 0, static_cast<int64_t>(items.size()));
  const std::array<OptView, 4> args{batch_.input_ids(), batch_.positions(), batch_.logits_indices(), logits};
  model_.call(ctx, args);
  for (const NewTokens& item : items) item.sequence->length += static_cast<int64_t>(item.tokens.size());
  return logits;
}

View ModelExecutor::prefill(RunningSequence& sequence, std::span<const int64_t> prompt) {
  if (prompt.empty()) throw Error("The prompt has no tokens; give at least one.");
  auto chunk = static_cast<size_t>(options_.max_step_tokens);
  View logits;
  for (size_t at = 0; at < prompt.size(); at += chunk) {
    const NewTokens item{&sequence, prompt.subspan(at, std::min(chunk, prompt.size() - at))};
    logits = forward({&item, 1});
  }
  return logits;
}

size_t ModelExecutor::memory_bytes() const {
  return states_.size_bytes() + arena_.capacity_bytes() + logits_.view().size_bytes();
}

}  // namespace fk
