// Sampler: picks the next token of each sequence from its logits, every sequence by its own parameters.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/memory.h"
#include "ops/l1/argmax.h"
#include "ops/l1/sample.h"
#include "ops/op.h"

namespace fk {

struct SamplingParams {
  double temperature = 0;  // 0: the most likely token
  int64_t top_k = 0;       // 0: all
  double top_p = 1;        // 1: all
  double min_p = 0;        // 0: all
  uint64_t seed = 0;
};

// Throws UsageError that names the parameter out of range.
void check_sampling_params(const SamplingParams& params);

class Sampler {
 public:
  Sampler(int64_t max_sequences, const BuildOptions& options);

  // logits [S, V]; params and steps (how many tokens a sequence has drawn before) one per row. Allocates nothing; the
  // tokens are valid until the next call.
  std::span<const int64_t> pick(Context& ctx, const View& logits, std::span<const SamplingParams> params,
                                std::span<const int64_t> steps);

 private:
  Builder builder_;
  Op<Argmax> argmax_;
  Op<Sample> sample_;
  Tensor temperature_, top_k_, top_p_, min_p_, seeds_, steps_, tokens_;
};

}  // namespace fk
