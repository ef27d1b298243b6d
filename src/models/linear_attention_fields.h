// What the config.json files of flash-linear-attention's models share.
#pragma once

#include "models/family_fields.h"
#include "ops/l4/linear_attention_lm.h"

namespace fk {

struct LinearAttentionDefaults {
  double expand_k = 0.5, expand_v = 1;
  int64_t hidden_ratio = 4;
  int64_t num_heads = 4;
};

void read_linear_attention(const FamilyFields& fields, const LinearAttentionDefaults& defaults,
                           LinearAttentionLMInit& init);

// The parts that all of its models have: vocabulary, width, layers, tied head, dtype; refuses attention layers in
// between and residuals of blocks.
void read_fla_model(const FamilyFields& fields, DecoderModelInit& init);

}  // namespace fk
