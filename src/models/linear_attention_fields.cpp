#include "models/linear_attention_fields.h"

#include <cmath>

#include "core/error.h"
#include "models/in_quotes.h"

namespace fk {
namespace {

int64_t required(const FamilyFields& fields, std::string_view key, int64_t most) {
  auto value = fields.integer(key, 1, most);
  if (!value) throw Error("{} has no {}.", fields.what(), key);
  return *value;
}

// hidden_size * ratio, which must be a whole number.
int64_t expanded(const FamilyFields& fields, int64_t hidden_size, std::string_view key, double ratio) {
  double size = static_cast<double>(hidden_size) * fields.real(key, 1e-6, 1e6).value_or(ratio);
  if (std::abs(size - std::round(size)) > 1e-9 * size)
    throw Error("{}: hidden_size {} times {} must be a whole number, and is {}.", fields.what(), hidden_size, key,
                size);
  return static_cast<int64_t>(std::llround(size));
}

int64_t per_head(const FamilyFields& fields, std::string_view what, int64_t size, int64_t heads) {
  if (size % heads != 0)
    throw Error("{}: the {} of {} elements do not divide by num_heads {}.", fields.what(), what, size, heads);
  return size / heads;
}

}  // namespace

void read_fla_model(const FamilyFields& fields, DecoderModelInit& init) {
  check_quantization(fields);
  init.vocab_size = required(fields, "vocab_size", INT32_MAX);
  init.hidden_size = required(fields, "hidden_size", 1 << 20);
  init.num_hidden_layers = required(fields, "num_hidden_layers", 1 << 12);
  init.max_position_embeddings = fields.integer("max_position_embeddings", 1, INT32_MAX).value_or(2048);
  init.tie_word_embeddings = fields.boolean("tie_word_embeddings").value_or(false);
  init.dtype = read_dtype(fields);
  for (std::string_view key : {"attn", "attnres_block_size"})
    if (fields.has(key)) throw Error("{}: {} with {} is not supported.", fields.what(), fields.architecture, key);
}

void read_linear_attention(const FamilyFields& fields, const LinearAttentionDefaults& defaults,
                           LinearAttentionLMInit& init) {
  read_fla_model(fields, init);
  const int64_t heads = fields.integer("num_heads", 1, 1 << 12).value_or(defaults.num_heads);
  init.num_attention_heads = heads;
  init.num_key_value_heads = fields.integer("num_kv_heads", 1, 1 << 12).value_or(heads);
  if (heads % init.num_key_value_heads != 0)
    throw Error("{}: num_heads {} must be a multiple of num_kv_heads {}.", fields.what(), heads,
                init.num_key_value_heads);
  init.head_dim = per_head(fields, "keys", expanded(fields, init.hidden_size, "expand_k", defaults.expand_k), heads);
  init.head_v_dim =
      per_head(fields, "values", expanded(fields, init.hidden_size, "expand_v", defaults.expand_v), heads);
  if (auto size = fields.integer("intermediate_size", 1, 1 << 22)) {
    init.intermediate_size = *size;
  } else {
    // Two thirds of hidden_ratio times the width, as a multiple of 256.
    int64_t ratio = fields.integer("hidden_ratio", 1, 1 << 10).value_or(defaults.hidden_ratio);
    init.intermediate_size = (init.hidden_size * ratio * 2 / 3 + 255) / 256 * 256;
  }
  init.rms_norm_eps = fields.real("norm_eps", 1e-30, 1).value_or(1e-6);
  init.use_output_gate = fields.boolean("use_output_gate").value_or(true);
  init.fuse_norm = fields.boolean("fuse_norm").value_or(true);
  if (auto act = fields.string("hidden_act"); act && *act != "swish")
    throw Error("{}: {} with activation {} is not supported; only swish is.", fields.what(), fields.architecture,
                in_quotes(*act));
  if (!fields.boolean("elementwise_affine").value_or(true))
    throw Error("{}: elementwise_affine must be true: norms without weights are not supported.", fields.what());
  if (fields.has("feature_map"))
    throw Error("{}: {} with a feature_map is not supported.", fields.what(), fields.architecture);
  refuse_flag(fields, "use_short_conv");
}

}  // namespace fk
