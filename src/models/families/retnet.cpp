// RetNet: retention, as flash-linear-attention stores it.
#include "core/error.h"
#include "models/family.h"
#include "models/linear_attention_fields.h"
#include "ops/l4/ret_net_for_causal_lm.h"

namespace fk {
namespace {

RetNetForCausalLM::Init read_retnet(const FamilyFields& fields) {
  RetNetForCausalLM::Init init;
  read_linear_attention(fields, {.expand_k = 1, .expand_v = 2, .hidden_ratio = 2, .num_heads = 8}, init);
  if (init.head_dim % 2 != 0)
    throw Error("{}: keys must have an even number of elements a head to be rotated, and have {}.", fields.what(),
                init.head_dim);
  return init;
}

const RegisterFamily<RetNetForCausalLM, read_retnet> kRetNet({.name = "retnet",
                                                              .model_type = "retnet",
                                                              .packed = {{"embed_tokens", {"embeddings"}},
                                                                         {"qkvg_proj",
                                                                          {"q_proj", "k_proj", "v_proj", "g_proj"}},
                                                                         {"qkv_proj", {"q_proj", "k_proj", "v_proj"}},
                                                                         {"gate_up_proj", {"gate_proj", "up_proj"}}}});

}  // namespace
}  // namespace fk
