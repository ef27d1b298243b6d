// Mixtral: as Mistral, with experts in place of the feed-forward block.
#include "models/config_experts.h"
#include "models/config_rope.h"
#include "models/family.h"
#include "ops/l4/mixtral_for_causal_lm.h"

namespace fk {
namespace {

MixtralForCausalLM::Init read_mixtral(const FamilyFields& fields) {
  MixtralForCausalLM::Init init;
  read_decoder(fields, {.max_position_embeddings = 131072, .num_key_value_heads = 8, .rms_norm_eps = 1e-5}, init);
  read_rope(fields, 1000000, init);
  for (const char* flag : {"attention_bias", "mlp_bias"}) refuse_flag(fields, flag);
  ExpertCounts counts = read_expert_counts(fields, "num_local_experts", {.experts = 8, .per_token = 2});
  init.num_local_experts = counts.experts;
  init.num_experts_per_tok = counts.per_token;
  init.sliding_window = read_window(fields, 0);
  return init;
}

std::vector<PackedModule> mixtral_parts() {
  std::vector<PackedModule> packed = separate_projections();
  packed.push_back({"experts.w13", {"experts.{e}.w1", "experts.{e}.w3"}});
  packed.push_back({"experts.w2", {"experts.{e}.w2"}});
  return packed;
}

const RegisterFamily<MixtralForCausalLM, read_mixtral> kMixtral({.name = "mixtral",
                                                                 .model_type = "mixtral",
                                                                 .packed = mixtral_parts()});

}  // namespace
}  // namespace fk
