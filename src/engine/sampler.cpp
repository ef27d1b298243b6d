#include "engine/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/error.h"

namespace fk {

void check_sampling_params(const SamplingParams& p) {
  if (!(p.temperature >= 0) || !std::isfinite(p.temperature))
    throw UsageError("The temperature must be 0 or more, not {}.", p.temperature);
  if (p.top_k < 0) throw UsageError("top-k must be 0 (all tokens) or more, not {}.", p.top_k);
  if (!(p.top_p > 0 && p.top_p <= 1)) throw UsageError("top-p must be above 0 and at most 1, not {}.", p.top_p);
  if (!(p.min_p >= 0 && p.min_p <= 1)) throw UsageError("min-p must lie between 0 and 1, not {}.", p.min_p);
  if (!(p.repetition_penalty > 0 && p.repetition_penalty <= 1e4))
    throw UsageError("The repetition penalty must be above 0 and at most 10000, not {}.", p.repetition_penalty);
  // As OpenAI's API has them.
  if (!(std::abs(p.presence_penalty) <= 2))
    throw UsageError("The presence penalty must lie between -2 and 2, not {}.", p.presence_penalty);
  if (!(std::abs(p.frequency_penalty) <= 2))
    throw UsageError("The frequency penalty must lie between -2 and 2, not {}.", p.frequency_penalty);
  for (auto [token, bias] : p.logit_bias)
    if (!(std::abs(bias) <= 1e6f)) throw UsageError("The bias of token {} must be a number, not {}.", token, bias);
}

Sampler::Sampler(int64_t max_sequences, const BuildOptions& options)
    : builder_(options),
      argmax_(builder_.child<Argmax>("argmax", {})),
      sample_(builder_.child<Sample>("sample", {})),
      penalties_(builder_.child<LogitPenalties>("logit_penalties", {})),
      turns_(options.device),
      temperature_({max_sequences}, turns_),
      top_p_({max_sequences}, turns_),
      min_p_({max_sequences}, turns_),
      top_k_({max_sequences}, turns_),
      seeds_({max_sequences}, turns_),
      steps_({max_sequences}, turns_),
      tokens_({max_sequences}, options.device),
      edit_starts_({max_sequences + 1}, turns_),
      repetition_({max_sequences}, turns_),
      presence_({max_sequences}, turns_),
      frequency_({max_sequences}, turns_) {}

Sampler::Edits::Edits(int64_t size, const StagingTurns& turns)
    : capacity(size), tokens({size}, turns), counts({size}, turns), in_prompt({size}, turns), bias({size}, turns) {}

void Sampler::set(std::span<const SamplingParams> params, std::span<const int64_t> steps) {
  FK_CHECK(params.size() == steps.size());
  rows_ = static_cast<int64_t>(params.size());
  num_edits_ = 0;
  greedy_ = true;
  turns_.begin();
  for (int64_t i = 0; i < rows_; ++i) set_row(i, params[static_cast<size_t>(i)], steps[static_cast<size_t>(i)]);
  push();
  turns_.end();
}

void Sampler::set(std::span<const SampledRow> rows) {
  rows_ = static_cast<int64_t>(rows.size());
  greedy_ = true;
  turns_.begin();
  for (int64_t i = 0; i < rows_; ++i)
    set_row(i, *rows[static_cast<size_t>(i)].params, rows[static_cast<size_t>(i)].step);
  push();
  set_edits(rows);
  turns_.end();
}

void Sampler::set_row(int64_t row, const SamplingParams& p, int64_t step) {
  greedy_ = greedy_ && p.temperature == 0;
  temperature_.host()[row] = static_cast<float>(p.temperature);
  top_k_.host()[row] = static_cast<int32_t>(std::min<int64_t>(p.top_k, INT32_MAX));
  top_p_.host()[row] = static_cast<float>(p.top_p);
  min_p_.host()[row] = static_cast<float>(p.min_p);
  seeds_.host()[row] = static_cast<int64_t>(p.seed);
  steps_.host()[row] = step;
}

void Sampler::push() {
  steps_.push(rows_);
  if (greedy_) return;
  temperature_.push(rows_);
  top_k_.push(rows_);
  top_p_.push(rows_);
  min_p_.push(rows_);
  seeds_.push(rows_);
}

void Sampler::set_edits(std::span<const SampledRow> rows) {
  num_edits_ = 0;
  for (const SampledRow& row : rows) num_edits_ += std::ssize(row.edits);
  if (num_edits_ == 0) return;
  if (!edits_ || edits_->capacity < num_edits_)
    edits_.emplace(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(num_edits_))), turns_);
  int32_t at = 0;
  edit_starts_.host()[0] = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    for (const LogitEdit& edit : rows[i].edits) {
      edits_->tokens.host()[at] = edit.token;
      edits_->counts.host()[at] = edit.count;
      edits_->in_prompt.host()[at] = edit.in_prompt ? 1 : 0;
      edits_->bias.host()[at] = edit.masked ? -INFINITY : edit.bias;
      ++at;
    }
    edit_starts_.host()[i + 1] = at;
    repetition_.host()[i] = static_cast<float>(rows[i].params->repetition_penalty);
    presence_.host()[i] = static_cast<float>(rows[i].params->presence_penalty);
    frequency_.host()[i] = static_cast<float>(rows[i].params->frequency_penalty);
  }
  edit_starts_.push(rows_ + 1);
  for (const Staged<float>* numbers : {&repetition_, &presence_, &frequency_}) numbers->push(rows_);
  edits_->tokens.push(num_edits_);
  edits_->counts.push(num_edits_);
  edits_->in_prompt.push(num_edits_);
  edits_->bias.push(num_edits_);
}

void Sampler::draw(Context& ctx, const View& logits) const {
  FK_CHECK(logits.size(0) == rows_);
  if (num_edits_ > 0) {
    auto listed = [&](const View& of) { return of.narrow(0, 0, num_edits_); };
    penalties_.into(ctx, logits, edit_starts_.view().narrow(0, 0, rows_ + 1), listed(edits_->tokens.view()),
                    listed(edits_->counts.view()), listed(edits_->in_prompt.view()), listed(edits_->bias.view()),
                    first(repetition_), first(presence_), first(frequency_));
  }
  if (greedy_)
    argmax_.into(ctx, logits, first(tokens_));
  else
    sample_.into(ctx, logits, first(temperature_), first(top_k_), first(top_p_), first(min_p_), first(seeds_),
                 first(steps_), first(tokens_));
}

std::span<const int64_t> Sampler::pick(Context& ctx, const View& logits, std::span<const SamplingParams> params,
                                       std::span<const int64_t> steps) {
  set(params, steps);
  draw(ctx, logits);
  tokens_.pull(rows_);
  return {tokens_.host(), params.size()};
}

}  // namespace fk
