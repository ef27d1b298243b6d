// Sampler: picks the next token of each sequence from its logits, every sequence by its own parameters.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/mirrored.h"
#include "engine/sampling_params.h"
#include "ops/l1/argmax.h"
#include "ops/l1/sample.h"
#include "ops/op.h"

namespace fk {

class Sampler {
 public:
  Sampler(int64_t max_sequences, const BuildOptions& options);

  // logits [S, V]; params and steps (how many tokens a sequence has drawn before) one per row. Allocates nothing; the
  // tokens are valid until the next call.
  std::span<const int64_t> pick(Context& ctx, const View& logits, std::span<const SamplingParams> params,
                                std::span<const int64_t> steps);

  // The two parts of pick for tokens that stay on the device: set the parameters, then sample with them. The caller
  // advances steps() between two calls of the second.
  void set(std::span<const SamplingParams> params, std::span<const int64_t> steps);
  void draw(Context& ctx, const View& logits) const;
  bool greedy() const { return greedy_; }  // all rows take the most likely token
  View tokens() const { return first(tokens_); }
  View steps() const { return first(steps_); }

 private:
  template <class T>
  View first(const Mirrored<T>& of) const {
    return of.view().narrow(0, 0, rows_);
  }

  Builder builder_;
  Op<Argmax> argmax_;
  Op<Sample> sample_;
  int64_t rows_ = 0;
  bool greedy_ = true;
  Mirrored<float> temperature_, top_p_, min_p_;
  Mirrored<int32_t> top_k_;
  Mirrored<int64_t> seeds_, steps_, tokens_;
};

}  // namespace fk
