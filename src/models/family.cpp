#include "models/family.h"

#include <algorithm>
#include <array>

namespace fk {
namespace {

constexpr std::array kFamilies{
    Family{.name = "llama",
           .category = "llm",
           .architecture = "LlamaForCausalLM",
           .model_type = "llama",
           .activation = "silu",
           .sliding = Sliding::kNever,
           .max_position_embeddings = 2048,
           .head_dim = 0,
           .rope_theta = 10000,
           .tie_word_embeddings = false,
           .attention_bias = true,
           .mlp_bias = true,
           .unit_norm_weight = 1},
    Family{.name = "mistral",
           .category = "llm",
           .architecture = "MistralForCausalLM",
           .model_type = "mistral",
           .activation = "silu",
           .sliding = Sliding::kAllLayers,
           .max_position_embeddings = 131072,
           .head_dim = 0,
           .rope_theta = 10000,
           .tie_word_embeddings = false,
           .attention_bias = false,
           .mlp_bias = false,
           .unit_norm_weight = 1},
    Family{.name = "qwen3",
           .category = "llm",
           .architecture = "Qwen3ForCausalLM",
           .model_type = "qwen3",
           .activation = "silu",
           .sliding = Sliding::kFromLayer,
           .max_position_embeddings = 32768,
           .head_dim = 128,
           .rope_theta = 10000,
           .tie_word_embeddings = false,
           .attention_bias = true,
           .mlp_bias = false,
           .unit_norm_weight = 1},
    Family{.name = "gemma3",
           .category = "llm",
           .architecture = "Gemma3ForCausalLM",
           .model_type = "gemma3_text",
           .activation = "gelu_pytorch_tanh",
           .sliding = Sliding::kPattern,
           .max_position_embeddings = 131072,
           .head_dim = 256,
           .rope_theta = 1000000,
           .tie_word_embeddings = true,
           .attention_bias = true,
           .mlp_bias = false,
           .unit_norm_weight = 0},
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* find_family(std::string_view architecture) {
  for (const Family& family : kFamilies)
    if (family.architecture == architecture) return &family;
  return nullptr;
}

std::vector<std::string> known_categories() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies)
    if (std::find(names.begin(), names.end(), family.category) == names.end()) names.emplace_back(family.category);
  return names;
}

std::string known_architectures() {
  std::string result;
  for (size_t i = 0; i < kFamilies.size(); ++i) {
    if (i != 0) result += i + 1 == kFamilies.size() ? " and " : ", ";
    result += kFamilies[i].architecture;
  }
  return result;
}

}  // namespace fk
