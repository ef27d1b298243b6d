// StepExecutor: runs the steps that a scheduler plans, on the states of a model, and draws the next tokens.
//
// On a device with graphs a step in which all sequences decode is recorded once for each number of sequences, rounded
// up to a power of two, and replayed from then on. Other steps are launched operator by operator.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/memory.h"
#include "engine/model.h"
#include "engine/sampler.h"
#include "engine/state_pool.h"
#include "engine/step_batch.h"
#include "engine/step_plan.h"

namespace fk {

struct StepLimits {
  int64_t max_sequences = 1;
  int64_t max_tokens = 2048;   // of one step
  int64_t max_context = 2048;  // tokens of one sequence
  int64_t page_size = kDefaultPageSize;
  int64_t blocks = 0;  // of the states
};

class StepExecutor {
 public:
  // Throws Error with the numbers where the states do not fit into memory.
  StepExecutor(const Model& model, ThreadPool& pool, const StepLimits& limits);

  // One forward pass. tokens[i] are the prompt and the drawn tokens of row i's request. Returns the logits of the rows
  // that draw, in their order, [D, V] on the device, which are valid until the next pass.
  View forward(const StepPlan& plan, std::span<const std::span<const int64_t>> tokens);
  // Draws a token for each row of these logits. Returns before a device has finished.
  void draw(std::span<const SampledRow> rows);
  // The tokens of the last draw(); waits for them.
  std::span<const int64_t> drawn();

  const Model& model() const { return model_; }
  // Observes every operator call from now on; nullptr: no observer.
  void observe(CallObserver* observer) { observer_ = observer; }
  size_t memory_bytes() const;  // of the states and of the step's arena, as far as reserved

 private:
  struct Recording {
    explicit Recording(Device device) : arena(device) {}

    Arena arena;                         // its own: other steps must not move the memory of a recorded one
    std::unique_ptr<RecordedWork> work;  // none after the first pass, which is for autotuning and allocation
  };

  Context context(Arena& arena);
  void call(Arena& arena);
  void replay(Recording& recording);

  const Model& model_;
  ThreadPool& pool_;
  const StepLimits limits_;
  StatePool states_;
  StepBatch batch_;
  Sampler sampler_;
  Tensor logits_;
  Arena arena_;
  std::vector<StepItem> items_;
  Mirrored<int64_t> drawn_;
  int64_t draws_ = 0;
  CallObserver* observer_ = nullptr;
  // By number of sequences and width of the block table.
  std::map<std::pair<int64_t, int64_t>, Recording> recordings_;
};

}  // namespace fk
