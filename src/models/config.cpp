#include "models/config.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>

#include "core/error.h"
#include "core/json.h"
#include "models/config_rope.h"
#include "models/family.h"
#include "models/in_quotes.h"
#include "models/json_fields.h"

namespace fk {
namespace {

constexpr int64_t kMaxInt32 = INT32_MAX;

// Upper bounds are far above real models (hidden_size 16384, 126 layers) and keep every product of dimensions,
// including the bytes of all layers, below 2^60.
struct Dimension {
  const char* name;
  int64_t CausalLMConfig::*member;
  int64_t least, most;
};
constexpr Dimension kDimensions[] = {
    {"vocab_size", &CausalLMConfig::vocab_size, 1, kMaxInt32},
    {"hidden_size", &CausalLMConfig::hidden_size, 1, 1 << 20},
    {"intermediate_size", &CausalLMConfig::intermediate_size, 1, 1 << 22},
    {"num_hidden_layers", &CausalLMConfig::num_hidden_layers, 1, 1 << 12},
    {"num_attention_heads", &CausalLMConfig::num_attention_heads, 1, 1 << 12},
    {"num_key_value_heads", &CausalLMConfig::num_key_value_heads, 1, 1 << 12},
    {"head_dim", &CausalLMConfig::head_dim, 2, 1 << 12},
    {"max_position_embeddings", &CausalLMConfig::max_position_embeddings, 1, kMaxInt32},
};
constexpr double kMinEps = 1e-30, kMaxEps = 1;
constexpr double kMaxAttentionScalar = 1e6;

const Family& read_family(const JsonFields& fields) {
  const Json* list = fields.find("architectures");
  if (list == nullptr || !list->is_array() || list->empty() || !list->front().is_string())
    throw Error("{} names no architecture; known are {}.", fields.what(), known_architectures());
  const auto& name = list->front().get_ref<const std::string&>();
  if (const Family* family = find_family(name)) {
    // transformers uses model_type and ignores architectures.
    auto model_type = fields.string("model_type");
    if (model_type && *model_type != family->model_type)
      throw Error("{} contradicts itself: its architecture {} belongs to model_type {}, and its model_type is {}.",
                  fields.what(), name, in_quotes(family->model_type), in_quotes(*model_type));
    return *family;
  }
  if (name == "Gemma3ForConditionalGeneration") {
    throw Error(
        "{} describes Gemma 3 with its vision part, which is not supported; save its language model as "
        "Gemma3ForCausalLM.",
        fields.what());
  }
  throw Error("{} asks for architecture {}; known are {}.", fields.what(), in_quotes(name), known_architectures());
}

void read_dimensions(const JsonFields& fields, const Family& family, CausalLMConfig& config) {
  config.max_position_embeddings = family.max_position_embeddings;
  for (const Dimension& d : kDimensions)
    config.*d.member = fields.integer(d.name, d.least, d.most).value_or(config.*d.member);
  for (const char* name :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"})
    if (!fields.has(name)) throw Error("{} has no {}.", fields.what(), name);
  if (config.num_key_value_heads == 0) config.num_key_value_heads = config.num_attention_heads;
  if (config.head_dim == 0) config.head_dim = family.head_dim;
  if (config.head_dim == 0) {
    if (config.hidden_size % config.num_attention_heads != 0) {
      throw Error("{} has no head_dim, and hidden_size {} does not divide by num_attention_heads {}.", fields.what(),
                  config.hidden_size, config.num_attention_heads);
    }
    config.head_dim = config.hidden_size / config.num_attention_heads;
  }
}

// One flag per layer, from the list newer files hold.
std::vector<uint8_t> read_layer_types(const JsonFields& fields, const Json& list, int64_t layers) {
  if (!list.is_array() || static_cast<int64_t>(list.size()) != layers)
    throw Error("{}: layer_types must be a list with one entry for each of the {} layers.", fields.what(), layers);
  std::vector<uint8_t> result;
  for (const Json& type : list) {
    bool sliding = type == "sliding_attention";
    if (!sliding && type != "full_attention")
      throw Error("{}: layer_types holds {}; known are full_attention and sliding_attention.", fields.what(),
                  in_quotes(type.dump()));
    result.push_back(sliding);
  }
  return result;
}

void read_sliding(const JsonFields& fields, const Family& family, CausalLMConfig& config) {
  int64_t layers = config.num_hidden_layers;
  bool wanted = family.sliding != Sliding::kNever;
  if (family.sliding == Sliding::kFromLayer) wanted = fields.boolean("use_sliding_window").value_or(false);
  if (!wanted) return;
  // The class default differs from an explicit null, which switches the window off.
  int64_t window = fields.is_null("sliding_window") ? 0 : fields.integer("sliding_window", 1, kMaxInt32).value_or(4096);

  std::vector<uint8_t> sliding(static_cast<size_t>(layers), 0);
  if (const Json* list = fields.find("layer_types"); list != nullptr) {
    sliding = read_layer_types(fields, *list, layers);
    bool some_full = std::count(sliding.begin(), sliding.end(), 0) != 0;
    if (family.sliding == Sliding::kAllLayers && window != 0 && some_full) {
      throw Error("{}: {} has a sliding window on all layers or on none, but layer_types mixes the two.", fields.what(),
                  family.architecture);
    }
  } else if (family.sliding == Sliding::kAllLayers) {
    std::fill(sliding.begin(), sliding.end(), uint8_t{1});
  } else if (family.sliding == Sliding::kFromLayer) {
    int64_t first = fields.integer("max_window_layers", 0, kMaxInt32).value_or(28);
    for (int64_t i = first; i < layers; ++i) sliding[static_cast<size_t>(i)] = 1;
  } else {
    const char* key = fields.has("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
    int64_t period = fields.integer(key, 1, kMaxInt32).value_or(6);
    for (int64_t i = 0; i < layers; ++i) sliding[static_cast<size_t>(i)] = (i + 1) % period != 0;
  }
  if (std::count(sliding.begin(), sliding.end(), 1) == 0) return;
  if (window == 0) {
    if (family.sliding == Sliding::kPattern) throw Error("{} has sliding layers but no sliding_window.", fields.what());
    return;
  }
  config.sliding_window = window;
  config.layer_is_sliding = std::move(sliding);
}

void read_activation(const JsonFields& fields, const Family& family) {
  auto found = fields.string("hidden_activation");
  if (!found) found = fields.string("hidden_act");
  if (found && *found != family.activation) {
    throw Error("{}: {} with activation {} is not supported; only {} is.", fields.what(), family.architecture,
                in_quotes(*found), family.activation);
  }
}

DType read_dtype(const JsonFields& fields) {
  auto name = fields.string("dtype");
  if (!name) name = fields.string("torch_dtype");
  if (!name) return DType::kF32;
  auto dtype = dtype_from_name(*name);
  if (dtype != DType::kBF16 && dtype != DType::kF16 && dtype != DType::kF32) {
    throw Error("{}: dtype {} is not supported; bfloat16, float16 and float32 are.", fields.what(), in_quotes(*name));
  }
  return *dtype;
}

// Settings that a family's configuration may have but that are not supported here.
void refuse_unsupported(const JsonFields& fields, const Family& family, const CausalLMConfig& config) {
  if (fields.has("quantization_config"))
    throw Error("{} describes quantized weights; only bfloat16, float16 and float32 weights are supported.",
                fields.what());
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"})
    if (fields.has(key)) throw Error("{}: {} is not supported.", fields.what(), key);
  if (fields.boolean("use_bidirectional_attention").value_or(false))
    throw Error("{}: use_bidirectional_attention is not supported; the model must be causal.", fields.what());
  if (config.attention_bias && !family.attention_bias)
    throw Error("{}: {} with attention_bias is not supported.", fields.what(), family.architecture);
  if (config.mlp_bias && !family.mlp_bias)
    throw Error("{}: {} with mlp_bias is not supported.", fields.what(), family.architecture);
}

}  // namespace

CausalLMConfig config_from_json(const Json& json, const std::string& what) {
  JsonFields fields(json, what);
  const Family& family = read_family(fields);
  CausalLMConfig config;
  config.architecture = family.architecture;
  read_dimensions(fields, family, config);
  config.rms_norm_eps = fields.real("rms_norm_eps", kMinEps, kMaxEps).value_or(1e-6);
  read_rope(fields, family, config);
  config.attention_bias = fields.boolean("attention_bias").value_or(false);
  config.mlp_bias = fields.boolean("mlp_bias").value_or(false);
  config.tie_word_embeddings = fields.boolean("tie_word_embeddings").value_or(family.tie_word_embeddings);
  if (family.name == "gemma3")
    config.query_pre_attn_scalar = fields.real("query_pre_attn_scalar", 1e-6, kMaxAttentionScalar).value_or(256);
  read_sliding(fields, family, config);
  read_activation(fields, family);
  config.dtype = read_dtype(fields);
  refuse_unsupported(fields, family, config);
  check_config(config, what);
  return config;
}

CausalLMConfig read_config(const std::string& directory) {
  std::string path = std::filesystem::path(directory) / "config.json";
  return config_from_json(parse_json_file(path), in_quotes(path));
}

void check_config(const CausalLMConfig& c, std::string_view what) {
  auto require = [&](bool holds, const std::string& rule) {
    if (!holds) throw Error("{}: {}.", what, rule);
  };
  require(find_family(c.architecture) != nullptr,
          fmt::format("architecture {} is not one of {}", in_quotes(c.architecture), known_architectures()));
  for (const Dimension& d : kDimensions) {
    require(c.*d.member >= d.least && c.*d.member <= d.most,
            fmt::format("{} must be from {} to {}, and is {}", d.name, d.least, d.most, c.*d.member));
  }
  require(c.num_attention_heads % c.num_key_value_heads == 0,
          fmt::format("num_attention_heads {} must be a multiple of num_key_value_heads {}", c.num_attention_heads,
                      c.num_key_value_heads));
  require(c.head_dim % 2 == 0, fmt::format("head_dim must be even to be rotated, and is {}", c.head_dim));
  require(c.rms_norm_eps >= kMinEps && c.rms_norm_eps <= kMaxEps,
          fmt::format("rms_norm_eps must be from {} to {}, and is {}", kMinEps, kMaxEps, c.rms_norm_eps));
  for (double theta : {c.rope_theta, c.rope_local_base_freq}) {
    require(theta >= 1 && theta <= kMaxRopeTheta,
            fmt::format("a rope theta must be from 1 to {}, and is {}", kMaxRopeTheta, theta));
  }
  const RopeScaling& rope = c.rope_scaling;
  require(rope.type == "default" || rope.type == "linear" || rope.type == "llama3",
          fmt::format("rope type {} is not one of default, linear and llama3", in_quotes(rope.type)));
  require(rope.factor >= 1 && rope.factor <= kMaxRopeFactor,
          fmt::format("the rope factor must be from 1 to {}, and is {}", kMaxRopeFactor, rope.factor));
  require(rope.low_freq_factor > 0 && rope.high_freq_factor > rope.low_freq_factor,
          fmt::format("high_freq_factor {} must be above low_freq_factor {}, which is above 0", rope.high_freq_factor,
                      rope.low_freq_factor));
  require(rope.original_max_position_embeddings > 0, "original_max_position_embeddings must be positive");
  require(c.query_pre_attn_scalar >= 0 && c.query_pre_attn_scalar <= kMaxAttentionScalar,
          fmt::format("query_pre_attn_scalar must be from 0 to {}, and is {}", kMaxAttentionScalar,
                      c.query_pre_attn_scalar));
  require(c.sliding_window >= 0 && c.sliding_window <= kMaxInt32,
          fmt::format("sliding_window must be from 0 to {}, and is {}", kMaxInt32, c.sliding_window));
  require(c.layer_is_sliding.empty() ? c.sliding_window == 0
                                     : c.sliding_window > 0 && std::ssize(c.layer_is_sliding) == c.num_hidden_layers,
          "a sliding window needs one flag per layer, and flags need a window");
}

}  // namespace fk
