// The fixed workloads of an evaluation: the same for every model of a task, so that scores can be compared.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/denoiser.h"
#include "models/model_config.h"

namespace fk {

// A fraction of every length, for machines and models that are too small for the real ones.
struct EvalScale {
  int64_t numerator = 1, denominator = 1;

  std::string text() const;  // "1", "1/16"
};
// Throws UsageError for anything but a whole number or a fraction of two, above 0 and at most 1.
EvalScale parse_scale(std::string_view text);

struct EvalWorkload {
  std::string name;
  bool throughput = true;     // else latency
  int64_t input_tokens = 0;   // of each request
  int64_t output_tokens = 0;  // 0: the model does not generate
  int64_t batch = 0;          // requests at once; 0: as many as --num-prompts gives and the engine takes
  int64_t steps = 0;          // of denoising; 0: the model does not

  int64_t length() const { return input_tokens + output_tokens; }
};

std::vector<EvalWorkload> eval_workloads(Task task, EvalScale scale);

// The largest of 1, 1/2, 1/4, ... with which every workload fits the context. Throws Error where none does.
EvalScale fitting_scale(Task task, int64_t context, std::string_view model);

// How a diffusion language model makes the texts of a workload.
DenoiseOptions denoise_options(const EvalWorkload& workload);

// "llm", "text-encoder", "image-encoder", "diffusion"
std::string eval_category(Task task);

}  // namespace fk
