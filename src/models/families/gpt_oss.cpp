// gpt-oss: experts with biases on every layer, attention sinks, a window on every other layer; experts may be stored in
// MXFP4.
#include "core/error.h"
#include "models/config_experts.h"
#include "models/config_rope.h"
#include "models/family.h"
#include "models/in_quotes.h"
#include "ops/l4/gpt_oss_for_causal_lm.h"

namespace fk {
namespace {

// The experts' matrices where the file describes quantised weights; other parts are never quantised.
std::string read_experts_format(const FamilyFields& fields) {
  auto config = fields.object("quantization_config");
  if (!config) return {};
  std::string method = config->string("quant_method").value_or("");
  if (method != "mxfp4")
    throw Error("{} describes weights quantized by {}; of {} only mxfp4 is supported.", fields.what(),
                in_quotes(method), fields.architecture);
  return "mxfp4";
}

void read_windows(const FamilyFields& fields, GptOssForCausalLM::Init& init) {
  std::optional<std::vector<uint8_t>> flags = read_layer_types(fields, init.num_hidden_layers);
  if (!flags) {
    flags.emplace();
    for (int64_t i = 0; i < init.num_hidden_layers; ++i) flags->push_back(i % 2 == 0);
  }
  init.sliding_window = read_window(fields, 128);
  if (init.sliding_window > 0) init.layer_is_sliding = std::move(*flags);
}

// Its operator and the kernel for a whole token have it as a constant.
void check_swiglu_alpha(const FamilyFields& fields) {
  constexpr double kAlpha = 1.702;
  double alpha = fields.real("swiglu_alpha", 0, 1e6).value_or(kAlpha);
  if (alpha != kAlpha) throw Error("{}: swiglu_alpha {} is not supported; only {} is.", fields.what(), alpha, kAlpha);
}

GptOssForCausalLM::Init read_gpt_oss(const FamilyFields& fields) {
  GptOssForCausalLM::Init init;
  read_decoder(fields,
               {.max_position_embeddings = 131072,
                .num_key_value_heads = 8,
                .head_dim = 64,
                .rms_norm_eps = 1e-5,
                .quant_method = "mxfp4"},
               init);
  init.experts_format = read_experts_format(fields);
  if (fields.has("rope_parameters") || fields.has("rope_scaling")) {
    read_rope(fields, 150000, init);
  } else {
    init.rope_theta = fields.real("rope_theta", 1, kMaxRopeTheta).value_or(150000);
    init.rope_scaling = {.type = "yarn",
                         .factor = 32,
                         .original_max_position_embeddings = 4096,
                         .truncate = false,
                         .attention_factor = yarn_attention_factor(32)};
  }
  init.attention_bias = fields.boolean("attention_bias").value_or(true);
  refuse_flag(fields, "mlp_bias");
  ExpertCounts counts = read_expert_counts(fields, fields.has("num_experts") ? "num_experts" : "num_local_experts",
                                           {.experts = 128, .per_token = 4});
  init.num_local_experts = counts.experts;
  init.num_experts_per_tok = counts.per_token;
  check_swiglu_alpha(fields);
  init.swiglu_limit = fields.real("swiglu_limit", 1e-3, 1e6).value_or(7);
  if (!init.experts_format.empty())
    for (int64_t size : {init.hidden_size, init.intermediate_size})
      if (size % 32 != 0)
        throw Error("{}: experts in MXFP4 need hidden_size and intermediate_size that are multiples of 32, not {}.",
                    fields.what(), size);
  read_windows(fields, init);
  return init;
}

std::vector<PackedModule> gpt_oss_parts() {
  return {
      {"qkv_proj", {"q_proj", "k_proj", "v_proj"}},
      {"attn.decode.sinks", {"sinks"}},
      {"attn.prefill.sinks", {"sinks"}},
      {"experts.w13.weight", {"experts.gate_up_proj"}, Stored::kTransposed},
      {"experts.w13.weight", {"experts.gate_up_proj_blocks", "experts.gate_up_proj_scales"}, Stored::kBlocksAndScales},
      {"experts.w13.bias", {"experts.gate_up_proj_bias"}},
      {"experts.w2.weight", {"experts.down_proj"}, Stored::kTransposed},
      {"experts.w2.weight", {"experts.down_proj_blocks", "experts.down_proj_scales"}, Stored::kBlocksAndScales},
      {"experts.w2.bias", {"experts.down_proj_bias"}}};
}

const RegisterFamily<GptOssForCausalLM, read_gpt_oss> kGptOss({.name = "gpt_oss",
                                                               .model_type = "gpt_oss",
                                                               .packed = gpt_oss_parts()});

}  // namespace
}  // namespace fk
