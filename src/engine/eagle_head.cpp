#include "engine/eagle_head.h"

#include <array>
#include <cstring>
#include <vector>

#include "core/check.h"
#include "core/device_runtime.h"
#include "core/error.h"

namespace fk {
namespace {

int64_t vocabulary_of(const Model& model) { return model.config.facts.vocab_size; }

// What a checkpoint says of the tokens that its head knows.
void check_draft_tokens(const Model& model) {
  const FieldValue* known = find_field(model.config.init, "draft_vocab_size");
  FK_CHECK(known != nullptr, "the model is not an EAGLE-3 head");
  const int64_t count = std::get<int64_t>(*known);
  if (count == vocabulary_of(model)) return;
  std::vector<int64_t> offsets(static_cast<size_t>(count));
  copy_between(model.weight("d2t"), View(offsets.data(), {count}, DType::kI64));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t offset = offsets[static_cast<size_t>(i)];
    if (offset < -i || offset >= vocabulary_of(model) - i)
      throw Error("{}: d2t[{}] is {}, which makes token {} of the head one outside the vocabulary of {} tokens.",
                  model.name, i, offset, i, vocabulary_of(model));
  }
}

// Calls copy(i, count) for every run of numbers that follow each other; most rows do.
template <class Copy>
void for_runs(std::span<const size_t> rows, Copy&& copy) {
  for (size_t i = 0; i < rows.size();) {
    size_t count = 1;
    while (i + count < rows.size() && rows[i + count] == rows[i] + count) ++count;
    copy(i, count);
    i += count;
  }
}

}  // namespace

EagleHead::EagleHead(const Model& model, std::span<const View> target_states, int64_t max_sequences)
    : model_(model),
      builder_(BuildOptions{.device = model.device}),
      select_(builder_.child<IndexSelect>("hidden_states", {})),
      last_({max_sequences, model.config.facts.hidden_size}, model.config.facts.dtype, model.device),
      kept_(last_.view().spec(), model.device),
      own_(last_.view().spec(), model.device) {
  for (const View& states : target_states) {
    FK_CHECK(states.dtype() == model.config.facts.dtype, "the head and its target have different dtypes");
    target_states_.push_back(states.reshape({states.size(0) * states.size(1), states.size(2)}));
  }
  check_draft_tokens(model);
}

void EagleHead::copy_rows(const View& from, size_t from_row, const View& to, size_t to_row, size_t count) const {
  const size_t row = static_cast<size_t>(from.size(1)) * dtype_size(from.dtype());
  const std::byte* source = static_cast<const std::byte*>(from.data()) + from_row * row;
  std::byte* target = static_cast<std::byte*>(to.data()) + to_row * row;
  if (model_.device == kCpu)
    std::memcpy(target, source, count * row);
  else
    device_runtime(model_.device).copy(target, source, count * row);
}

void EagleHead::take_own_states(std::span<const size_t> rows) {
  own_rows_ = std::ssize(rows);
  for_runs(rows, [&](size_t i, size_t count) { copy_rows(kept_, rows[i], own_, i, count); });
}

void EagleHead::keep_states(std::span<const size_t> rows) {
  for_runs(rows, [&](size_t i, size_t count) { copy_rows(last_, i, kept_, rows[i], count); });
}

// [T, layers * D].
View EagleHead::states_of_target(Context& ctx, const View& slots) const {
  const int64_t width = target_states_[0].size(1);
  View all = ctx.arena.make({{slots.size(0), std::ssize(target_states_) * width}, target_states_[0].dtype()});
  for (int64_t i = 0; i < std::ssize(target_states_); ++i)
    select_.into(ctx, target_states_[static_cast<size_t>(i)], slots, all.narrow(1, i * width, width));
  return all;
}

void EagleHead::pass(Context& ctx, const StepBatch& batch, const View& logits) {
  FK_CHECK(own_rows_ == 0 || own_rows_ == batch.input_ids().size(0));
  const View hidden =
      own_rows_ > 0 ? own_.view().narrow(0, 0, own_rows_) : states_of_target(ctx, batch.attention().slot_mapping);
  const std::array<OptView, 6> args{batch.input_ids(),
                                    batch.positions(),
                                    hidden,
                                    batch.logits_indices(),
                                    logits,
                                    last_.view().narrow(0, 0, logits.size(0))};
  model_.root->call(ctx, args);
}

std::vector<int64_t> wanted_hidden_states(const ModelSource& head, const ModelSource& target) {
  const int64_t layers = target.config.facts.num_hidden_layers;
  const FieldValue* named = find_field(head.config.init, "eagle_aux_hidden_state_layer_ids");
  FK_CHECK(named != nullptr, "the model is not an EAGLE-3 head");
  std::vector<int64_t> wanted = std::get<std::vector<int64_t>>(*named);
  constexpr int64_t kFirst = 2, kFromLast = 3;
  if (wanted.empty() && layers < kFirst + kFromLast)
    throw UsageError(
        "--speculative-config: {} names no layers of its target, and {} has too few, {}, for the usual ones; add "
        "eagle_aux_hidden_state_layer_ids to the head's config.json.",
        head.name, target.name, layers);
  if (wanted.empty()) wanted = {kFirst, layers / 2, layers - kFromLast};
  for (int64_t layer : wanted)
    if (layer > layers)
      throw UsageError("--speculative-config: {} wants hidden states of layer {}, and {} has {} layers.", head.name,
                       layer, target.name, layers);
  return wanted;
}

}  // namespace fk
