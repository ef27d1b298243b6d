// Qwen 2 and 2.5: biases of queries, keys and values, always; a window on its later layers where the config asks for
// one.
#include "models/config_rope.h"
#include "models/family.h"
#include "ops/l4/qwen2_for_causal_lm.h"

namespace fk {
namespace {

Qwen2ForCausalLM::Init read_qwen2(const FamilyFields& fields) {
  Qwen2ForCausalLM::Init init;
  read_decoder(fields, {.max_position_embeddings = 32768}, init);
  read_rope(fields, 10000, init);
  refuse_flag(fields, "mlp_bias");
  read_windows_of_later_layers(fields, init.num_hidden_layers, init);
  return init;
}

const RegisterFamily<Qwen2ForCausalLM, read_qwen2> kQwen2({.name = "qwen2",
                                                           .model_type = "qwen2",
                                                           .gguf = {.architecture = "qwen2"}});

}  // namespace
}  // namespace fk
