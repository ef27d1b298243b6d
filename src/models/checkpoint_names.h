// What checkpoints call the parameters of a model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/checkpoint.h"
#include "models/model_config.h"
#include "ops/node.h"

namespace fk {

inline constexpr std::string_view kHeadWeight = "lm_head.weight";
inline constexpr std::string_view kEmbeddingWeight = "model.embed_tokens.weight";

// The parameters to load for a model built from `config`: stacked ones with the checkpoint's names of their parts, and
// without the output head where it is tied to the embedding.
std::vector<ParamSpec> checkpoint_params(const Node& model, const ModelConfig& config);

// In the checkpoint of a larger architecture the model's tensors have a prefix: then they are read from there. The same
// where the checkpoint has the family's second name for a module.
void find_part(std::vector<ParamSpec>& params, const ModelConfig& config, const Checkpoint& checkpoint);

// Programs that quantise store each expert by itself, also for families whose checkpoints have all experts in one
// tensor (Gemma 4, Llama 4): "experts.3.gate_proj.weight". Then they are read from there.
void find_experts(std::vector<ParamSpec>& params, const Checkpoint& checkpoint);

// The name under which a parameter of the tree was loaded.
std::string loaded_name(const std::string& param, const ModelConfig& config);

}  // namespace fk
