// The supported model families, and the defaults of their config.json.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

enum class Sliding : uint8_t {
  kNever,      // llama
  kAllLayers,  // mistral: every layer, where a window is given
  kFromLayer,  // qwen3: layers from max_window_layers on, where use_sliding_window is set
  kPattern,    // gemma3: every layer but each sixth
};

// Defaults are those of the family's configuration class in transformers: a file written by it leaves out fields with
// default values, and older versions lack newer fields.
struct Family {
  std::string_view name;          // "llama"
  std::string_view category;      // what kind of model: "llm"
  std::string_view architecture;  // "LlamaForCausalLM"
  std::string_view model_type;    // "llama": by which transformers chooses the model
  std::string_view activation;    // the only hidden_act its mlp has
  Sliding sliding;
  int64_t max_position_embeddings;
  int64_t head_dim;  // 0: hidden_size / num_attention_heads
  double rope_theta;
  bool tie_word_embeddings;
  bool attention_bias;     // may have biases on q, k, v and o
  bool mlp_bias;           // may have biases in the mlp
  float unit_norm_weight;  // the neutral norm weight: 1, or 0 where norms multiply by 1 + weight
};

std::span<const Family> families();
const Family* find_family(std::string_view architecture);  // nullptr where unknown
std::string known_architectures();                         // "A, B and C", for errors
std::vector<std::string> known_categories();               // each once

}  // namespace fk
