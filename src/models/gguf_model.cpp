#include "models/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "core/json.h"
#include "models/checkpoint_names.h"
#include "models/config.h"
#include "models/family.h"
#include "models/in_quotes.h"
#include "models/json_fields.h"
#include "ops/formats/format_map.h"

namespace fk {
namespace {

constexpr std::string_view kRopeFactors = "rope_freqs.weight";

struct Renamed {
  std::string_view gguf, ours;
};
constexpr Renamed kModelNames[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
constexpr Renamed kLayerNames[] = {{"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
                                   {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
                                   {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
                                   {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
                                   {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
                                   {"ffn_down", "mlp.down_proj"}};

// Keys of the metadata, after the architecture's name, and what config.json calls them.
constexpr Renamed kIntegerKeys[] = {{"embedding_length", "hidden_size"},
                                    {"feed_forward_length", "intermediate_size"},
                                    {"block_count", "num_hidden_layers"},
                                    {"attention.head_count", "num_attention_heads"},
                                    {"attention.head_count_kv", "num_key_value_heads"},
                                    {"attention.key_length", "head_dim"},
                                    {"context_length", "max_position_embeddings"}};
constexpr Renamed kRealKeys[] = {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                                 {"rope.freq_base", "rope_theta"}};
// Read or checked elsewhere, or without influence on the arithmetic.
constexpr std::string_view kOtherKeys[] = {"vocab_size",           "attention.value_length",
                                           "rope.dimension_count", "rope.scaling.type",
                                           "rope.scaling.factor",  "rope.scale_linear",
                                           "tensor_data_layout",   "rope.scaling.finetuned",
                                           "expert_count",         "rope.scaling.original_context_length"};

// Adapters and vocabularies name the architecture of the model that they belong to.
void check_type(const GgufFile& file) {
  auto type = file.string("general.type");
  if (type && *type != "model")
    throw Error("{} is of the type {}, not a model{}.", in_quotes(file.path()), in_quotes(*type),
                *type == "adapter" ? "; join it with its model by llama-export-lora" : "; give the file of the model");
}

const Family& family_of(const GgufFile& file) {
  auto architecture = file.string("general.architecture");
  if (!architecture) throw Error("{} names no architecture, so it is not a model.", in_quotes(file.path()));
  std::string known;
  for (const Family* family : families()) {
    if (family->gguf.architecture.empty()) continue;
    if (family->gguf.architecture == *architecture) return *family;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family->gguf.architecture);
  }
  throw Error("{} holds a model of the architecture {}; known in GGUF files are {}.", in_quotes(file.path()),
              in_quotes(*architecture), known);
}

void check_keys(const GgufFile& file, const std::string& prefix) {
  auto known = [&](std::string_view key) {
    auto same = [&](const Renamed& r) { return r.gguf == key; };
    return std::any_of(std::begin(kIntegerKeys), std::end(kIntegerKeys), same) ||
           std::any_of(std::begin(kRealKeys), std::end(kRealKeys), same) ||
           std::find(std::begin(kOtherKeys), std::end(kOtherKeys), key) != std::end(kOtherKeys);
  };
  for (const auto& [key, value] : file.header().metadata)
    if (key.starts_with(prefix) && !known(std::string_view(key).substr(prefix.size())))
      throw Error("{} sets {}, which is not supported for this architecture.", in_quotes(file.path()), in_quotes(key));
  if (file.integer(prefix + "expert_count").value_or(0) != 0)
    throw Error("{} is a mixture of experts, which is not supported in GGUF files.", in_quotes(file.path()));
  if (file.integer("split.count").value_or(1) > 1)
    throw Error("{} is one of {} parts of a model; join them with llama-gguf-split --merge.", in_quotes(file.path()),
                *file.integer("split.count"));
}

// Files of Llama 3 have the factors of its frequencies instead of the numbers they follow from.
Json llama3_rope(const GgufFile& file, const GgufTensor& tensor, int64_t head_dim, double theta) {
  View factors = file.view(tensor);
  bool usable = factors.dtype() == DType::kF32 && factors.numel() == head_dim / 2;
  double largest = 1;
  for (int64_t i = 0; usable && i < factors.numel(); ++i)
    largest = std::max(largest, get(factors.reshape({factors.numel()}), i));
  constexpr double kLow = 1, kHigh = 4, kOriginal = 8192;  // of all published models
  for (int64_t i = 0; usable && i < factors.numel(); ++i) {
    double wavelength = 2 * M_PI * std::pow(theta, 2 * static_cast<double>(i) / static_cast<double>(head_dim));
    double smooth = std::clamp((kOriginal / wavelength - kLow) / (kHigh - kLow), 0.0, 1.0);
    double expected = 1 / ((1 - smooth) / largest + smooth);
    usable = std::abs(get(factors.reshape({factors.numel()}), i) - expected) < 1e-3 * expected;
  }
  if (!usable)
    throw Error("{} scales rotary frequencies by factors of its own (tensor {}), which are not those of Llama 3.",
                in_quotes(file.path()), kRopeFactors);
  return {{"rope_type", "llama3"},
          {"factor", largest},
          {"low_freq_factor", kLow},
          {"high_freq_factor", kHigh},
          {"original_max_position_embeddings", static_cast<int64_t>(kOriginal)}};
}

void read_rope(const GgufFile& file, const std::string& prefix, int64_t head_dim, Json& config) {
  if (file.integer(prefix + "rope.dimension_count").value_or(head_dim) != head_dim)
    throw Error("{} rotates only a part of every head, which is not supported for this architecture.",
                in_quotes(file.path()));
  auto type = file.string(prefix + "rope.scaling.type");
  auto factor = file.real(prefix + "rope.scaling.factor");
  if (!factor) factor = file.real(prefix + "rope.scale_linear");
  auto factors = file.header().tensors.find(kRopeFactors);
  // A linear factor of 1 changes nothing.
  const bool scaled = (type && *type != "none" && *type != "linear") || factor.value_or(1) != 1;
  if (factors != file.header().tensors.end()) {
    if (scaled)
      throw Error("{} scales rotary frequencies twice, by the type {} and by tensor {}, which is not supported.",
                  in_quotes(file.path()), in_quotes(type.value_or("linear")), kRopeFactors);
    config["rope_scaling"] = llama3_rope(file, factors->second, head_dim, config.value("rope_theta", 10000.0));
  } else if (scaled) {
    config["rope_scaling"] = {{"rope_type", type.value_or("linear")}, {"factor", factor.value_or(1)}};
    // Without it the context of the file stands in, as in llama.cpp.
    if (auto original = file.integer(prefix + "rope.scaling.original_context_length"))
      config["rope_scaling"]["original_max_position_embeddings"] = *original;
  }
}

// Every setting in the words of config.json, so that the family reads and checks it as it does there.
Json config_json(const GgufFile& file, const Family& family) {
  std::string prefix = std::string(family.gguf.architecture) + ".";
  Json config{{"architectures", {family.architecture}}, {"dtype", "bfloat16"}};
  for (const Renamed& key : kIntegerKeys)
    if (auto value = file.integer(prefix + std::string(key.gguf))) config[std::string(key.ours)] = *value;
  for (const Renamed& key : kRealKeys)
    if (auto value = file.real(prefix + std::string(key.gguf))) config[std::string(key.ours)] = *value;
  const auto& tensors = file.header().tensors;
  auto embedding = tensors.find("token_embd.weight");
  if (embedding == tensors.end() || embedding->second.spec.shape.rank() != 2)
    throw Error("{} holds no token_embd.weight, so it is no language model.", in_quotes(file.path()));
  config["vocab_size"] = embedding->second.spec.shape[0];
  config["tie_word_embeddings"] = !tensors.contains("output.weight");
  if (tensors.contains("blk.0.attn_output.bias")) config["attention_bias"] = true;
  if (tensors.contains("blk.0.ffn_down.bias")) config["mlp_bias"] = true;
  auto heads = config.value("num_attention_heads", int64_t{0}), hidden = config.value("hidden_size", int64_t{0});
  int64_t head_dim = config.value("head_dim", heads > 0 ? hidden / heads : 0);
  if (file.integer(prefix + "attention.value_length").value_or(head_dim) != head_dim)
    throw Error("{} has values of another size than keys, which is not supported for this architecture.",
                in_quotes(file.path()));
  read_rope(file, prefix, head_dim, config);
  return config;
}

// "model.layers.3.self_attn.q_proj.weight" -> ("q_proj", 3)
MatrixFormat matrix_of(const std::string& name, const std::string& format) {
  constexpr std::string_view kLayers = "model.layers.", kWeight = ".weight";
  std::string path = name.substr(0, name.size() - kWeight.size());
  MatrixFormat matrix;
  matrix.module = path.substr(path.rfind('.') + 1);
  matrix.format = format;
  if (path.starts_with(kLayers)) matrix.layer = std::atoll(path.c_str() + kLayers.size());
  return matrix;
}

}  // namespace

ModelConfig gguf_config(const GgufFile& file) {
  check_type(file);
  const Family& family = family_of(file);
  check_keys(file, std::string(family.gguf.architecture) + ".");
  Json json = config_json(file, family);
  ModelConfig config = config_from_json(json, "The metadata of " + in_quotes(file.path()));
  std::vector<MatrixFormat> matrices;
  for (const auto& [name, tensor] : file.header().tensors)
    if (std::string ours = gguf_tensor_name(name); tensor.spec.shape.rank() == 2 && ours.ends_with(".weight"))
      matrices.push_back(matrix_of(ours, tensor.format));
  if (!set_field(config.init, "weight_format", format_map(matrices)) ||
      !set_field(config.init, "is_neox_style", !family.gguf.rotates_pairs))
    throw Error("{} cannot be read from GGUF files.", family.architecture);
  return config;
}

std::string gguf_tensor_name(std::string_view name) {
  if (name == kRopeFactors) return "";
  size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::string(name);
  std::string_view ending = name.substr(dot), path = name.substr(0, dot);
  if (path.starts_with("blk.")) {
    path.remove_prefix(4);
    size_t number = path.find('.');
    for (const Renamed& r : kLayerNames)
      if (number != std::string_view::npos && path.substr(number + 1) == r.gguf)
        return fmt::format("model.layers.{}.{}{}", path.substr(0, number), r.ours, ending);
  }
  for (const Renamed& r : kModelNames)
    if (path == r.gguf) return fmt::format("{}{}", r.ours, ending);
  return std::string(name);
}

GenerationDefaults gguf_generation_defaults(const GgufFile& file) {
  GenerationDefaults defaults;
  defaults.bos = file.integer("tokenizer.ggml.bos_token_id");
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"})
    if (auto id = file.integer(key);
        id && std::find(defaults.eos.begin(), defaults.eos.end(), *id) == defaults.eos.end())
      defaults.eos.push_back(*id);
  return defaults;
}

}  // namespace fk
