#include "models/config_latent.h"

#include <cmath>

#include "core/error.h"
#include "models/config_rope.h"

namespace fk {
namespace {

constexpr int64_t kMaxLatent = 1 << 16, kMaxHead = 1 << 12;

// What yarn multiplies scores by besides 1 / sqrt(size): the square of a factor that is for both queries and keys.
double score_factor(const FamilyFields& fields, const DecoderModelInit& init) {
  auto rope = fields.object("rope_parameters");
  if (auto scaling = fields.object("rope_scaling"); scaling && !scaling->empty()) rope = scaling;
  if (!rope || init.rope_scaling.type == "default") return 1;
  double weight = rope->real("mscale_all_dim", 0, kMaxRopeFactor).value_or(0);
  if (weight == 0 || init.rope_scaling.factor <= 1) return 1;
  double factor = 0.1 * weight * std::log(init.rope_scaling.factor) + 1;
  return factor * factor;
}

}  // namespace

void read_latent_sizes(const FamilyFields& fields, const LatentDefaults& defaults, LatentAttention& latent) {
  latent.kv_lora_rank = fields.integer("kv_lora_rank", 1, kMaxLatent).value_or(defaults.kv_lora_rank);
  latent.q_lora_rank =
      fields.is_null("q_lora_rank") ? 0 : fields.integer("q_lora_rank", 1, kMaxLatent).value_or(defaults.q_lora_rank);
  latent.qk_nope_head_dim = fields.integer("qk_nope_head_dim", 1, kMaxHead).value_or(defaults.qk_nope_head_dim);
  latent.qk_rope_head_dim = fields.integer("qk_rope_head_dim", 2, kMaxHead).value_or(defaults.qk_rope_head_dim);
  latent.v_head_dim = fields.integer("v_head_dim", 1, kMaxHead).value_or(defaults.v_head_dim);
  latent.attention_bias = fields.boolean("attention_bias").value_or(false);
}

void read_latent_decoder(const FamilyFields& fields, const DecoderDefaults& defaults,
                         const LatentDefaults& latent_defaults, DecoderModelInit& init, LatentAttention& latent) {
  read_latent_sizes(fields, latent_defaults, latent);
  if (latent.qk_rope_head_dim % 2 != 0)
    throw Error("{}: qk_rope_head_dim must be even to be rotated, and is {}.", fields.what(), latent.qk_rope_head_dim);

  DecoderDefaults rotated = defaults;
  rotated.head_dim = latent.qk_rope_head_dim;
  read_decoder(fields, rotated, init);
  if (init.num_key_value_heads != init.num_attention_heads)
    throw Error("{}: {} has keys of its own for every head, so num_key_value_heads {} must be num_attention_heads {}.",
                fields.what(), fields.architecture, init.num_key_value_heads, init.num_attention_heads);
  // Files may have the size of whole heads here; only the rotated part is what the rotary embedding is made for.
  init.head_dim = latent.qk_rope_head_dim;
  read_rope(fields, 10000, init);
  init.is_neox_style = !fields.boolean("rope_interleave").value_or(latent_defaults.rope_interleave);
  auto size = static_cast<double>(latent.qk_nope_head_dim + latent.qk_rope_head_dim);
  latent.attention_scale = score_factor(fields, init) / std::sqrt(size);
}

}  // namespace fk
