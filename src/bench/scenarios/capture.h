// capture: the scenarios of a real run of a model, with how often each occurred.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/scenarios/scenario.h"
#include "core/thread_pool.h"
#include "engine/encoder.h"
#include "engine/model.h"

namespace fk {

struct CaptureOptions {
  EncoderInput inputs;        // prompts or texts as token ids, or images; run together as one batch
  int64_t decode_tokens = 8;  // of language models, after each prompt, greedily
  bool golden = false;        // keep the values of integer inputs and the blocks of the KV cache
};

struct Capture {
  std::vector<Scenario> scenarios;
  std::vector<std::string> unmatched;  // calls that are not a scenario because no workload gives their shapes
  int64_t tensors = 0;                 // in the golden file
};

// Writes the scenarios to `path` and real values, where asked for, to the .safetensors file of the same name beside it.
Capture capture_to_file(const Model& model, ThreadPool& pool, const CaptureOptions& options, const std::string& path);

}  // namespace fk
