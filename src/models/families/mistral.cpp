// Mistral: as Llama, with a sliding window on all layers or on none.
#include <algorithm>

#include "core/error.h"
#include "models/config_rope.h"
#include "models/family.h"
#include "ops/l4/mistral_for_causal_lm.h"

namespace fk {
namespace {

MistralForCausalLM::Init read_mistral(const FamilyFields& fields) {
  MistralForCausalLM::Init init;
  read_decoder(fields, {.max_position_embeddings = 131072}, init);
  read_rope(fields, 10000, init);
  refuse_flag(fields, "attention_bias");
  refuse_flag(fields, "mlp_bias");
  init.sliding_window = read_window(fields, 4096);
  std::optional<std::vector<uint8_t>> sliding = read_layer_types(fields, init.num_hidden_layers);
  if (sliding && init.sliding_window != 0 && std::count(sliding->begin(), sliding->end(), 0) != 0)
    throw Error("{}: {} has a sliding window on all layers or on none, but layer_types mixes the two.", fields.what(),
                fields.architecture);
  return init;
}

const RegisterFamily<MistralForCausalLM, read_mistral> kMistral({.name = "mistral", .model_type = "mistral"});

}  // namespace
}  // namespace fk
