// JambaForCausalLM: Jamba: layers of attention among layers of Mamba, experts on some of them.
#pragma once

#include "ops/l3/jamba_decoder_layer.h"
#include "ops/l4/causal_lm.h"

namespace fk {

struct JambaForCausalLMInit : DecoderModelInit {
  int64_t num_experts = 16;
  int64_t num_experts_per_tok = 2;
  int64_t expert_layer_period = 2;
  int64_t expert_layer_offset = 1;
  int64_t attn_layer_period = 8;
  int64_t attn_layer_offset = 4;
  int64_t mamba_d_state = 16;
  int64_t mamba_d_conv = 4;
  int64_t mamba_expand = 2;
  int64_t mamba_dt_rank = 0;
  bool mamba_conv_bias = true;
  bool mamba_proj_bias = false;

  bool has_attention(int64_t layer) const { return layer % attn_layer_period == attn_layer_offset; }
  // A layer with one expert has a feed-forward block.
  bool has_experts(int64_t layer) const {
    return num_experts > 1 && layer % expert_layer_period == expert_layer_offset;
  }

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    v("num_experts", num_experts);
    v("num_experts_per_tok", num_experts_per_tok);
    v("expert_layer_period", expert_layer_period);
    v("expert_layer_offset", expert_layer_offset);
    v("attn_layer_period", attn_layer_period);
    v("attn_layer_offset", attn_layer_offset);
    v("mamba_d_state", mamba_d_state);
    v("mamba_d_conv", mamba_d_conv);
    v("mamba_expand", mamba_expand);
    v("mamba_dt_rank", mamba_dt_rank);
    v("mamba_conv_bias", mamba_conv_bias);
    v("mamba_proj_bias", mamba_proj_bias);
  }
};

class JambaForCausalLM : public CausalLM<JambaForCausalLM, JambaForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "jamba_for_causal_lm";
  static constexpr std::string_view kClass = "JambaForCausalLM";
  using CausalLM::CausalLM;

  static JambaDecoderLayer::Init layer(const Init& init, int64_t i);
  static Cost layer_cost(const Init& init, int64_t i, const Workload& w) {
    return JambaDecoderLayer::cost(layer(init, i), w);
  }
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<JambaForCausalLM>> cases();
};

}  // namespace fk
