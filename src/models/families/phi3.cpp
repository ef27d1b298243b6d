// Phi 3 and 4: their checkpoints stack projections as the model does; a part of each head may stay unrotated.
#include "models/config_rope.h"
#include "models/family.h"
#include "ops/l4/phi3_for_causal_lm.h"

namespace fk {
namespace {

Phi3ForCausalLM::Init read_phi3(const FamilyFields& fields) {
  Phi3ForCausalLM::Init init;
  read_decoder(fields, {.max_position_embeddings = 4096, .rms_norm_eps = 1e-5}, init);
  init.rotary_dim = read_partial_rope(fields, 10000, 1, init);
  for (const char* flag : {"attention_bias", "mlp_bias", "lm_head_bias"}) refuse_flag(fields, flag);
  init.sliding_window = read_window(fields, 0);
  return init;
}

const RegisterFamily<Phi3ForCausalLM, read_phi3> kPhi3({.name = "phi3", .model_type = "phi3", .packed = {}});

}  // namespace
}  // namespace fk
