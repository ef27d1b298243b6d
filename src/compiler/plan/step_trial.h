// Trial of a whole plan: is a step of the model slower by it than by the tree.
//
// Kernels that are each faster than the calls they stand for need not make a model faster: caches, memory and the other
// steps of a plan decide too. So both run in place, on the model's own weights, in turn.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/plan/compiled_model.h"
#include "compiler/plan/region_trial.h"

namespace fk {

// A batch that is timed.
struct StepSizes {
  int64_t sequences = 1;  // that decode, or have a prompt; of a mixed batch those that decode, beside one prompt
  int64_t tokens = 1;     // of each prompt, or of each text of an encoder
};

struct StepTrialOptions {
  std::vector<StepSizes> sizes;
  double seconds = 1;  // for each of them, about
  uint64_t seed = 0;
};

// `calls_ns` is the tree, `kernel_ns` the plan, and `rows` the new tokens of the batch. No timings where the model's
// context is too short. Changes neither compiled.left_to_tree() nor any state that others use. All ranks call
// it, and each times its own part.
TrialResult try_step(CompiledModel& compiled, const Model& model, ThreadPool& pool, GraphPhase phase,
                     const StepTrialOptions& options);

// Whether the tree runs these batches and not the plan: with one of them the plan is slower beyond the noise, or
// clearly below the tree without that being certain, or the times were too noisy to say anything.
bool keeps_tree(const TrialResult& steps);

// "a step of 8 tokens takes 1.240 ms by the plan and 1.100 ms by the tree: 0.887x (0.871 to 0.902, SLOWER)", of the
// batch with the least speed-up.
std::string step_text(const TrialResult& steps);

}  // namespace fk
