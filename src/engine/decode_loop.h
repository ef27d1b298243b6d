// DecodeLoop: decodes a batch of sequences step by step, with the whole state of a step on the device.
//
// Sampled tokens, positions, lengths and slots never pass through the host. So on a device with graphs a step is
// recorded once for each batch size (rounded up to a power of two) and replayed from then on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/model_executor.h"
#include "engine/sampler.h"
#include "ops/l1/advance_step.h"

namespace fk {

class DecodeLoop {
 public:
  DecodeLoop(ModelExecutor& executor, int64_t max_sequences);

  // Takes sequences whose prompts are in the cache and reserves cache blocks for `steps` more tokens. tokens[i] is the
  // first input; drawn[i] is the number of tokens sampled so far.
  void start(std::span<RunningSequence* const> sequences, std::span<const int64_t> tokens,
             std::span<const SamplingParams> params, std::span<const int64_t> drawn, int64_t steps);

  // Runs one step: feeds every sequence its token and samples the next. Returns before a device has finished.
  void step();
  // The same with these tokens instead of those sampled by the previous step.
  void step_with(std::span<const int64_t> tokens);

  // The tokens sampled by the last step, one per sequence; waits for it.
  std::span<const int64_t> drawn();
  // Of the last step, [sequences, V], on the device.
  View logits() const { return logits_.view().narrow(0, 0, static_cast<int64_t>(sequences_.size())); }

 private:
  DecodeLoop(ModelExecutor& executor, int64_t rows, Device device);
  struct Recording {
    explicit Recording(Device device) : arena(device) {}

    Arena arena;  // its own: other steps must not move the memory of a recorded one
    std::unique_ptr<RecordedWork>
        work;  // none after the first, unrecorded step, which is for autotuning and allocation
  };

  Context context(Arena& arena);
  void call_model(Context& ctx);
  void tune(Arena& arena);
  void run(Arena& arena);
  void replay(Recording& recording);
  View rows(const View& of) const { return of.narrow(0, 0, bucket_); }

  ModelExecutor& executor_;
  Sampler sampler_;
  Builder builder_;
  Op<AdvanceStep> advance_;
  Mirrored<int64_t> ids_, positions_, slots_, indices_, drawn_;
  Mirrored<int32_t> lengths_, cu_q_, cu_k_, table_, state_slots_;
  Tensor logits_;
  Arena arena_;  // of steps that are not recorded

  std::vector<RunningSequence*> sequences_;
  int64_t bucket_ = 0;  // rows of a step: the sequences, and rows of length 0 behind them
  int64_t steps_left_ = 0;
  AttentionMetadata attention_;

  std::map<std::pair<int64_t, bool>, Recording> recorded_;  // by (bucket, greedy)
};

}  // namespace fk
