// Llama: dense decoders with separate projections, of which all, or none, have biases.
#include "models/config_rope.h"
#include "models/family.h"
#include "ops/l4/llama_for_causal_lm.h"

namespace fk {
namespace {

LlamaForCausalLM::Init read_llama(const FamilyFields& fields) {
  LlamaForCausalLM::Init init;
  read_decoder(fields, {}, init);
  read_rope(fields, 10000, init);
  init.attention_bias = fields.boolean("attention_bias").value_or(false);
  init.mlp_bias = fields.boolean("mlp_bias").value_or(false);
  return init;
}

const RegisterFamily<LlamaForCausalLM, read_llama> kLlama({.name = "llama",
                                                           .model_type = "llama",
                                                           .gguf = {.architecture = "llama", .rotates_pairs = true}});

}  // namespace
}  // namespace fk
