// Gemma 3, its language model: norms that multiply by 1 + weight, and a sliding window on all layers but each sixth.
#include <algorithm>

#include "core/error.h"
#include "models/config_rope.h"
#include "models/family.h"
#include "ops/l4/gemma3_for_causal_lm.h"

namespace fk {
namespace {

void read_sliding(const FamilyFields& fields, int64_t layers, SlidingLayers& sliding) {
  std::optional<std::vector<uint8_t>> flags = read_layer_types(fields, layers);
  if (!flags) {
    const char* key = fields.has("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
    int64_t period = fields.integer(key, 1, INT32_MAX).value_or(6);
    flags.emplace();
    for (int64_t i = 0; i < layers; ++i) flags->push_back((i + 1) % period != 0);
  }
  int64_t window = read_window(fields, 4096);
  if (std::count(flags->begin(), flags->end(), 1) == 0) return;
  if (window == 0) throw Error("{} has sliding layers but no sliding_window.", fields.what());
  sliding = {window, std::move(*flags)};
}

Gemma3ForCausalLM::Init read_gemma3(const FamilyFields& fields) {
  Gemma3ForCausalLM::Init init;
  read_decoder(fields,
               {.max_position_embeddings = 131072,
                .head_dim = 256,
                .tie_word_embeddings = true,
                .activation = "gelu_pytorch_tanh"},
               init);
  init.rope_local_base_freq = read_rope_by_kind_of_layer(fields, 1000000, 10000, init);
  init.query_pre_attn_scalar = fields.real("query_pre_attn_scalar", 1e-6, 1e6).value_or(256);
  init.attention_bias = fields.boolean("attention_bias").value_or(false);
  refuse_flag(fields, "mlp_bias");
  read_sliding(fields, init.num_hidden_layers, init);
  return init;
}

const RegisterFamily<Gemma3ForCausalLM, read_gemma3> kGemma3(
    {.name = "gemma3",
     .model_type = "gemma3_text",
     .norm_offset = 0,
     .refused = {{"Gemma3ForConditionalGeneration",
                  "describes Gemma 3 with its vision part, which is not supported; save its language model as "
                  "Gemma3ForCausalLM."}}});

}  // namespace
}  // namespace fk
