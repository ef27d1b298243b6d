// Qwen 3, dense: norms of each head of queries and keys; a window on its later layers where the config asks for one.
#include "models/config_rope.h"
#include "models/family.h"
#include "ops/l4/qwen3_for_causal_lm.h"

namespace fk {
namespace {

Qwen3ForCausalLM::Init read_qwen3(const FamilyFields& fields) {
  Qwen3ForCausalLM::Init init;
  read_decoder(fields, {.max_position_embeddings = 32768, .head_dim = 128}, init);
  read_rope(fields, 10000, init);
  init.attention_bias = fields.boolean("attention_bias").value_or(false);
  refuse_flag(fields, "mlp_bias");
  read_windows_of_later_layers(fields, init.num_hidden_layers, init);
  return init;
}

const RegisterFamily<Qwen3ForCausalLM, read_qwen3> kQwen3({.name = "qwen3",
                                                           .model_type = "qwen3",
                                                           .gguf = {.architecture = "qwen3"}});

}  // namespace
}  // namespace fk
