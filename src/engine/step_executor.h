// StepExecutor: runs the steps that a scheduler plans, on the states of a model, and draws the next tokens.
//
// On a device with graphs a step in which all sequences decode is recorded once for each number of sequences, rounded
// up, and replayed from then on. Other steps are launched operator by operator.
//
// A step may be started before the tokens of the one before it have reached the host: rows that need such a token take
// it from the device's memory.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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
  int64_t blocks = 0;               // of the states
  int64_t max_drafts = 0;           // guesses in the row of one sequence
  int64_t max_prompt_logits = 256;  // of one step
  int64_t slots = 0;                // of the per-sequence states; 0: one for each sequence
};

class StepExecutor {
 public:
  // Throws Error with the numbers where the states do not fit into memory.
  StepExecutor(const Model& model, ThreadPool& pool, const StepLimits& limits);

  // One forward pass. tokens[i] are the prompt and the drawn tokens of row i's request, as far as the host knows them,
  // and its guesses. Returns the logits of the rows that draw, draws_rows() of each, [D, V] on the device, which are
  // valid until the next pass.
  View forward(const StepPlan& plan, std::span<const std::span<const int64_t>> tokens);
  // Draws a token for each of these logits. Returns before a device has finished.
  void draw(std::span<const SampledRow> rows);
  // The tokens of the oldest draw() whose tokens were not asked for; waits for them. At most two are outstanding. Valid
  // until the next but one draw().
  std::span<const int64_t> drawn();

  const Model& model() const { return model_; }
  View logits() const { return step_logits_.narrow(0, 0, draws_); }  // of the last pass
  // The same of the tokens of prompts that the plan wants them of, row by row.
  View prompt_logits() const { return step_logits_.narrow(0, draws_, prompt_logits_); }
  // Copies the per-sequence states of a slot to another one.
  void copy_slot(int32_t from, int32_t to) const { states_.copy_slot(from, to); }
  // The memory of the model's states, in the order of collect_states.
  std::span<const View> states() const { return states_.states(); }
  // Runs passes from now on, in the place of Model::call: for a model that takes more than tokens. Gives the logits.
  // Such passes are not recorded.
  using Pass = std::function<void(Context& ctx, const StepBatch& batch, const View& logits)>;
  void run_by(Pass pass);
  // Launches every step operator by operator from now on.
  void record_nothing() { records_ = false; }
  // Observes every operator call from now on; nullptr: no observer.
  void observe(CallObserver* observer) { observer_ = observer; }
  // Passes that Model::instead ran.
  int64_t passes_instead() const { return passes_instead_; }
  size_t memory_bytes() const;  // of the states and of the step's arena, as far as reserved

 private:
  struct Recording {
    explicit Recording(Device device) : arena(device) {}

    Arena arena;                         // its own: other steps must not move the memory of a recorded one
    std::unique_ptr<RecordedWork> work;  // none after the first pass, which is for autotuning and allocation
    bool instead = false;                // Model::instead ran what was recorded
  };

  // Tokens of one draw() on their way to the host.
  struct Drawn {
    int64_t count = 0;
    std::unique_ptr<PinnedBuffer> pinned;  // none on the CPU
    std::unique_ptr<DeviceEvent> arrived;
    std::vector<int64_t> tokens;  // on the CPU
  };

  Context context(Arena& arena);
  void take_drawn_tokens(const StepPlan& plan) const;
  bool call(Arena& arena);
  void tune(Recording& recording, const StepPlan& plan, const StepShape& shape);
  bool replay(Recording& recording);

  const Model& model_;
  ThreadPool& pool_;
  const StepLimits limits_;
  StatePool states_;
  StepBatch batch_;
  Sampler sampler_;
  Tensor logits_;
  std::optional<Tensor> wide_logits_;  // made for the first step that has more of them
  View step_logits_;                   // of the last pass
  Arena arena_;
  std::vector<StepItem> items_;
  int64_t draws_ = 0;                 // of the last pass
  int64_t prompt_logits_ = 0;         // and logits of prompts
  std::vector<RequestId> drew_;       // the requests of the rows of the last draw()
  std::vector<RequestId> will_draw_;  // and of the last pass
  std::array<Drawn, 2> drawn_;        // in turn
  size_t drawn_first_ = 0, drawn_outstanding_ = 0;
  bool records_ = true;
  Pass pass_;  // none: Model::call
  int64_t passes_instead_ = 0;
  CallObserver* observer_ = nullptr;
  // By number of sequences and width of the block table.
  std::map<std::pair<int64_t, int64_t>, Recording> recordings_;
};

}  // namespace fk
