// The part of config.json that describes latent attention, as DeepSeek's and GLM's configs spell it.
#pragma once

#include "models/family_fields.h"
#include "ops/l4/mla_model_init.h"

namespace fk {

struct LatentDefaults {
  int64_t q_lora_rank = 1536;
  int64_t kv_lora_rank = 512;
  int64_t qk_nope_head_dim = 128;
  int64_t qk_rope_head_dim = 64;
  int64_t v_head_dim = 128;
  bool rope_interleave = true;
};

// The sizes and biases in LatentAttention.
void read_latent_sizes(const FamilyFields& fields, const LatentDefaults& defaults, LatentAttention& latent);

// Everything in LatentAttention, and of DecoderModelInit what read_decoder reads, the rotary embedding of the rotated
// part, and is_neox_style. Where yarn has mscale_all_dim, the scores are scaled too, as in transformers.
void read_latent_decoder(const FamilyFields& fields, const DecoderDefaults& defaults,
                         const LatentDefaults& latent_defaults, DecoderModelInit& init, LatentAttention& latent);

}  // namespace fk
