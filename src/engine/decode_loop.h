// DecodeLoop: sequences that draw a token each, step after step, with everything a step needs kept on the device.
//
// The tokens drawn, positions, lengths and slots never pass through the host, so on a device that can record work a
// step is recorded once for each batch size (rounded up to a power of two) and replayed from then on, unchanged.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/runner.h"
#include "engine/sampler.h"
#include "ops/l1/advance_step.h"

namespace fk {

class DecodeLoop {
 public:
  DecodeLoop(Runner& runner, int64_t max_sequences);

  // Takes sequences whose prompts are in the cache and gives them room for `steps` tokens more. tokens[i] is fed first;
  // drawn[i] tokens were drawn before the next one.
  void start(std::span<RunningSequence* const> sequences, std::span<const int64_t> tokens,
             std::span<const SamplingParams> params, std::span<const int64_t> drawn, int64_t steps);

  // Feeds every sequence its token and draws the next. Returns before a device has done it.
  void step();
  // The same with these tokens in place of those drawn by the step before.
  void step_with(std::span<const int64_t> tokens);

  // What the last step drew, one per sequence; waits for it.
  std::span<const int64_t> drawn();
  // Of the last step, [sequences, V], on the device.
  View logits() const { return logits_.view().narrow(0, 0, static_cast<int64_t>(sequences_.size())); }

 private:
  DecodeLoop(Runner& runner, int64_t rows, Device device);
  void run();
  View rows(const View& of) const { return of.narrow(0, 0, bucket_); }

  Runner& runner_;
  Sampler sampler_;
  Builder builder_;
  Op<AdvanceStep> advance_;
  Mirrored<int64_t> ids_, positions_, slots_, indices_, drawn_;
  Mirrored<int32_t> lengths_, cu_q_, cu_k_, table_, state_slots_;
  Tensor logits_;
  Arena arena_;

  std::vector<RunningSequence*> sequences_;
  int64_t bucket_ = 0;  // rows of a step: the sequences, and rows of length 0 behind them
  int64_t steps_left_ = 0;
  AttentionMetadata attention_;

  // By (bucket, greedy). Empty after a first, unrecorded step, in which kernels choose their ways and memory is found.
  std::map<std::pair<int64_t, bool>, std::unique_ptr<RecordedWork>> recorded_;
};

}  // namespace fk
