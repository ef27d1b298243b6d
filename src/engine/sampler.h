// Sampler: picks the next token of each sequence from its logits, every sequence by its own parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/logit_edits.h"
#include "engine/mirrored.h"
#include "engine/sampling_params.h"
#include "engine/staged.h"
#include "ops/l1/argmax.h"
#include "ops/l1/logit_penalties.h"
#include "ops/l1/sample.h"
#include "ops/op.h"

namespace fk {

// A row of logits and how its token is drawn.
struct SampledRow {
  const SamplingParams* params = nullptr;
  int64_t step = 0;                  // how many tokens the sequence has drawn before
  std::span<const LogitEdit> edits;  // penalties, bias and masks
};

class Sampler {
 public:
  Sampler(int64_t max_sequences, const BuildOptions& options);

  // logits [S, V]; params and steps (how many tokens a sequence has drawn before) one per row. Allocates nothing; the
  // tokens are valid until the next call. Penalties and bias are not applied.
  std::span<const int64_t> pick(Context& ctx, const View& logits, std::span<const SamplingParams> params,
                                std::span<const int64_t> steps);

  // The two parts of pick for tokens that stay on the device: set the parameters, then sample with them. The caller
  // advances steps() between two calls of the second.
  void set(std::span<const SamplingParams> params, std::span<const int64_t> steps);
  void set(std::span<const SampledRow> rows);
  // Edits change the logits.
  void draw(Context& ctx, const View& logits) const;
  bool greedy() const { return greedy_; }  // all rows take the most likely token
  View tokens() const { return first(tokens_); }
  View steps() const { return first(steps_); }

 private:
  template <class Array>
  View first(const Array& of) const {
    return of.view().narrow(0, 0, rows_);
  }

  // The edits of all rows, one row behind the other.
  struct Edits {
    Edits(int64_t capacity, const StagingTurns& turns);

    int64_t capacity;
    Staged<int64_t> tokens;
    Staged<int32_t> counts, in_prompt;
    Staged<float> bias;
  };

  void set_row(int64_t row, const SamplingParams& params, int64_t step);
  void set_edits(std::span<const SampledRow> rows);
  void push();

  Builder builder_;
  Op<Argmax> argmax_;
  Op<Sample> sample_;
  Op<LogitPenalties> penalties_;
  int64_t rows_ = 0;
  int64_t num_edits_ = 0;
  bool greedy_ = true;
  StagingTurns turns_;
  Staged<float> temperature_, top_p_, min_p_;
  Staged<int32_t> top_k_;
  Staged<int64_t> seeds_, steps_;
  Mirrored<int64_t> tokens_;
  Staged<int32_t> edit_starts_;
  Staged<float> repetition_, presence_, frequency_;
  std::optional<Edits> edits_;  // made when the first row has some
};

}  // namespace fk
