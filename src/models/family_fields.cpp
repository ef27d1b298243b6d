#include "models/family_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/json.h"
#include "models/family.h"
#include "models/in_quotes.h"
#include "models/quantization_config.h"

namespace fk {
namespace {

constexpr int64_t kMaxInt32 = INT32_MAX, kMaxHeadDim = 1 << 12;

// Upper bounds are far above real models (hidden_size 16384, 126 layers) and keep every product of dimensions,
// including the bytes of all layers, below 2^60.
struct Dimension {
  const char* name;
  int64_t DecoderModelInit::*member;
  int64_t least, most;
  bool required;
};
constexpr Dimension kDimensions[] = {
    {"vocab_size", &DecoderModelInit::vocab_size, 1, kMaxInt32, true},
    {"hidden_size", &DecoderModelInit::hidden_size, 1, 1 << 20, true},
    {"intermediate_size", &DecoderModelInit::intermediate_size, 1, 1 << 22, true},
    {"num_hidden_layers", &DecoderModelInit::num_hidden_layers, 1, 1 << 12, true},
    {"num_attention_heads", &DecoderModelInit::num_attention_heads, 1, 1 << 12, true},
    {"num_key_value_heads", &DecoderModelInit::num_key_value_heads, 1, 1 << 12, false},
    {"head_dim", &DecoderModelInit::head_dim, 2, kMaxHeadDim, false},
    {"max_position_embeddings", &DecoderModelInit::max_position_embeddings, 1, kMaxInt32, false},
};
constexpr double kMinEps = 1e-30, kMaxEps = 1;

void read_dimensions(const FamilyFields& fields, const DecoderDefaults& defaults, DecoderModelInit& init) {
  init.max_position_embeddings = defaults.max_position_embeddings;
  for (const Dimension& d : kDimensions)
    init.*d.member = fields.integer(d.name, d.least, d.most).value_or(init.*d.member);
  for (const Dimension& d : kDimensions)
    if (d.required && !fields.has(d.name)) throw Error("{} has no {}.", fields.what(), d.name);
  if (init.num_key_value_heads == 0) init.num_key_value_heads = defaults.num_key_value_heads;
  if (init.num_key_value_heads == 0) init.num_key_value_heads = init.num_attention_heads;
  if (init.head_dim == 0) init.head_dim = defaults.head_dim;
  if (init.head_dim == 0) {
    if (init.hidden_size % init.num_attention_heads != 0) {
      throw Error("{} has no head_dim, and hidden_size {} does not divide by num_attention_heads {}.", fields.what(),
                  init.hidden_size, init.num_attention_heads);
    }
    init.head_dim = init.hidden_size / init.num_attention_heads;
    if (init.head_dim > kMaxHeadDim)
      throw Error("{}: head_dim must be at most {}, and is {}.", fields.what(), kMaxHeadDim, init.head_dim);
  }
  if (init.num_attention_heads % init.num_key_value_heads != 0) {
    throw Error("{}: num_attention_heads {} must be a multiple of num_key_value_heads {}.", fields.what(),
                init.num_attention_heads, init.num_key_value_heads);
  }
  if (init.head_dim % 2 != 0)
    throw Error("{}: head_dim must be even to be rotated, and is {}.", fields.what(), init.head_dim);
}

void check_activation(const FamilyFields& fields, std::string_view known) {
  auto found = fields.string("hidden_activation");
  if (!found) found = fields.string("hidden_act");
  if (found && *found != known) {
    throw Error("{}: {} with activation {} is not supported; only {} is.", fields.what(), fields.architecture,
                in_quotes(*found), known);
  }
}

}  // namespace

void read_decoder(const FamilyFields& fields, const DecoderDefaults& defaults, DecoderModelInit& init) {
  read_dimensions(fields, defaults, init);
  init.rms_norm_eps = fields.real("rms_norm_eps", kMinEps, kMaxEps).value_or(defaults.rms_norm_eps);
  init.tie_word_embeddings = fields.boolean("tie_word_embeddings").value_or(defaults.tie_word_embeddings);
  init.dtype = read_dtype(fields);
  check_activation(fields, defaults.activation);
  // A family with a method of its own reads it itself.
  if (defaults.quant_method.empty())
    init.weight_format = read_quantization(fields, *find_family(fields.architecture), init.num_hidden_layers);
  if (fields.has("attn_logit_softcapping")) throw Error("{}: attn_logit_softcapping is not supported.", fields.what());
  // With it transformers lets every token see those after it, in any family.
  if (!fields.boolean("is_causal").value_or(true))
    throw Error("{}: is_causal must be true; {} that sees later tokens is not supported.", fields.what(),
                fields.architecture);
  if (defaults.own_soft_cap_and_direction) return;
  if (fields.has("final_logit_softcapping"))
    throw Error("{}: final_logit_softcapping is not supported.", fields.what());
  if (fields.boolean("use_bidirectional_attention").value_or(false))
    throw Error("{}: use_bidirectional_attention is not supported; the model must be causal.", fields.what());
}

DType read_dtype(const FamilyFields& fields) {
  auto name = fields.string("dtype");
  if (!name) name = fields.string("torch_dtype");
  if (!name) return DType::kF32;
  auto dtype = dtype_from_name(*name);
  if (dtype != DType::kBF16 && dtype != DType::kF16 && dtype != DType::kF32) {
    throw Error("{}: dtype {} is not supported; bfloat16, float16 and float32 are.", fields.what(), in_quotes(*name));
  }
  return *dtype;
}

void refuse_quantized(const FamilyFields& fields) {
  if (fields.has("quantization_config"))
    throw Error("{} describes quantized weights; only bfloat16, float16 and float32 weights are supported.",
                fields.what());
}

void check_quantization(const FamilyFields& fields) { read_quantization(fields, *find_family(fields.architecture), 0); }

void refuse_flag(const FamilyFields& fields, std::string_view key) {
  if (fields.boolean(key).value_or(false))
    throw Error("{}: {} with {} is not supported.", fields.what(), fields.architecture, key);
}

int64_t read_window(const FamilyFields& fields, int64_t default_window) {
  // The class default differs from an explicit null, which switches the window off.
  if (fields.is_null("sliding_window")) return 0;
  return fields.integer("sliding_window", 1, kMaxWindow).value_or(default_window);
}

std::optional<std::vector<uint8_t>> read_layer_types(const FamilyFields& fields, int64_t layers) {
  const Json* list = fields.find("layer_types");
  if (list == nullptr) return std::nullopt;
  if (!list->is_array() || static_cast<int64_t>(list->size()) != layers)
    throw Error("{}: layer_types must be a list with one entry for each of the {} layers.", fields.what(), layers);
  std::vector<uint8_t> result;
  for (const Json& type : *list) {
    bool sliding = type == "sliding_attention";
    if (!sliding && type != "full_attention")
      throw Error("{}: layer_types holds {}; known are full_attention and sliding_attention.", fields.what(),
                  in_quotes(type.dump()));
    result.push_back(sliding);
  }
  return result;
}

void read_windows_of_later_layers(const FamilyFields& fields, int64_t layers, SlidingLayers& sliding) {
  if (!fields.boolean("use_sliding_window").value_or(false)) return;
  int64_t window = read_window(fields, 4096);
  std::optional<std::vector<uint8_t>> flags = read_layer_types(fields, layers);
  if (!flags) {
    int64_t first = fields.integer("max_window_layers", 0, kMaxInt32).value_or(28);
    flags.emplace();
    for (int64_t i = 0; i < layers; ++i) flags->push_back(i >= first);
  }
  if (window == 0 || std::count(flags->begin(), flags->end(), 1) == 0) return;
  sliding = {window, std::move(*flags)};
}

ModelFacts facts_of(const DecoderModelInit& init) {
  return {.vocab_size = init.vocab_size,
          .hidden_size = init.hidden_size,
          .num_hidden_layers = init.num_hidden_layers,
          .max_position_embeddings = init.max_position_embeddings,
          .tied_head = init.tie_word_embeddings,
          .tp_size = init.tp_size,
          .dtype = init.dtype};
}

}  // namespace fk
