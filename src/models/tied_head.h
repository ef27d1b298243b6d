// Decides from the checkpoint whether the head is tied to the embedding, as transformers 5 does.
#pragma once

#include <vector>

#include "models/checkpoint.h"
#include "models/model_config.h"
#include "ops/param.h"

namespace fk {

// A config may tie the head to the embedding although the file has both. If their values differ, the head is untied
// here; if they are equal, it stays tied.
void untie_head_that_differs(ModelConfig& config, const Checkpoint& checkpoint);

// A file may have the tied matrix under the head's name only: then the embedding is read from there.
void find_tied_embedding(std::vector<ParamSpec>& params, const ModelConfig& config, const Checkpoint& checkpoint);

}  // namespace fk
