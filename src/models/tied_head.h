// What a checkpoint makes of tie_word_embeddings, as transformers 5 decides it.
#pragma once

#include <vector>

#include "models/checkpoint.h"
#include "ops/l4/causal_lm_config.h"
#include "ops/param.h"

namespace fk {

// A config may say that the head is the embedding while the file holds both. Where their values differ the file is
// believed, and the head is untied here; equal ones stay one.
void untie_head_that_differs(CausalLMConfig& config, const Checkpoint& checkpoint);

// A file may hold the one tied matrix under the head's name: the embedding is read from there then.
void find_tied_embedding(std::vector<ParamSpec>& params, const CausalLMConfig& config, const Checkpoint& checkpoint);

}  // namespace fk
