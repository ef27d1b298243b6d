// BitNet b1.58: dense decoders whose checkpoints have ternary matrices, four elements to a byte.
#include <fmt/format.h>

#include "core/error.h"
#include "models/config_rope.h"
#include "models/family.h"
#include "models/in_quotes.h"
#include "models/module_patterns.h"
#include "ops/l4/bitnet_for_causal_lm.h"

namespace fk {
namespace {

void refuse_other_modules(const JsonFields& config, int64_t layers) {
  ModulePatterns kept(config, "modules_to_not_convert");
  if (!kept.match("lm_head"))
    throw Error("{}: modules_to_not_convert without lm_head is not supported: the head must have elements of a dtype.",
                config.what());
  for (int64_t i = 0; i < layers; ++i)
    for (const char* module : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                               "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
      if (kept.match(fmt::format("model.layers.{}.{}", i, module)))
        throw Error("{}: modules_to_not_convert with {} is not supported; all matrices of layers must be ternary.",
                    config.what(), module);
}

// The matrices of all layers; a head is never ternary. Without quantization_config transformers computes with the
// elements that the checkpoint has, and so does this program.
std::string read_ternary_format(const FamilyFields& fields, int64_t layers) {
  auto config = fields.object("quantization_config");
  if (!config) return {};
  std::string method = config->string("quant_method").value_or("");
  if (method != "bitnet")
    throw Error("{} describes weights quantized by {}; of {} only bitnet is supported.", fields.what(),
                in_quotes(method), fields.architecture);
  std::string layer = config->string("linear_class").value_or("bitlinear"),
              mode = config->string("quantization_mode").value_or("offline");
  if (layer != "bitlinear" && layer != "autobitlinear")
    throw Error("{} has linear_class {}; known are bitlinear and autobitlinear.", config->what(), in_quotes(layer));
  if (layer == "autobitlinear" && mode != "offline")
    throw Error(
        "{}: quantization_mode {} is not supported, only offline: use the checkpoint whose matrices are ternary "
        "already.",
        config->what(), in_quotes(mode));
  if (config->boolean("use_rms_norm").value_or(false))
    throw Error("{}: use_rms_norm is not supported.", config->what());
  if (config->has("modules_to_not_convert")) refuse_other_modules(*config, layers);
  return (layer == "autobitlinear" ? std::string("ternary") : std::string("ternary_inverse")) +
         ";embed_tokens=none;lm_head=none";
}

BitNetForCausalLM::Init read_bitnet(const FamilyFields& fields) {
  BitNetForCausalLM::Init init;
  read_decoder(fields,
               {.max_position_embeddings = 2048,
                .num_key_value_heads = 5,
                .rms_norm_eps = 1e-5,
                .activation = "relu2",
                .quant_method = "bitnet"},
               init);
  read_rope(fields, 500000, init);
  if (init.num_attention_heads * init.head_dim != init.hidden_size)
    throw Error("{}: attn_sub_norm needs num_attention_heads {} times head_dim {} to be hidden_size {}.", fields.what(),
                init.num_attention_heads, init.head_dim, init.hidden_size);
  init.attention_bias = fields.boolean("attention_bias").value_or(false);
  init.weight_format = read_ternary_format(fields, init.num_hidden_layers);
  return init;
}

const RegisterFamily<BitNetForCausalLM, read_bitnet> kBitNet({.name = "bitnet", .model_type = "bitnet"});

}  // namespace
}  // namespace fk
