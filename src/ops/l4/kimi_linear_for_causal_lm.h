// KimiLinearForCausalLM: Kimi delta attention, on every few layers latent attention without a rotary embedding, and
// experts on all but the first layers.
#pragma once

#include "ops/l3/kimi_decoder_layer.h"
#include "ops/l4/causal_lm.h"
#include "ops/l4/grouped_experts.h"
#include "ops/l4/mla_model_init.h"

namespace fk {

struct KimiLinearForCausalLMInit : DecoderModelInit, LatentAttention, GroupedExperts {
  std::vector<uint8_t> layer_is_linear = {};  // one per layer
  int64_t linear_num_heads = 32;
  int64_t linear_head_dim = 128;
  int64_t linear_conv_kernel_dim = 4;

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    LatentAttention::visit(v);
    GroupedExperts::visit(v);
    v("layer_is_linear", layer_is_linear);
    v("linear_num_heads", linear_num_heads);
    v("linear_head_dim", linear_head_dim);
    v("linear_conv_kernel_dim", linear_conv_kernel_dim);
  }
};

class KimiLinearForCausalLM : public CausalLM<KimiLinearForCausalLM, KimiLinearForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "kimi_linear_for_causal_lm";
  static constexpr std::string_view kClass = "KimiLinearForCausalLM";

  using CausalLM::CausalLM;

  static KimiDecoderLayerInit layer(const Init& init, int64_t i);
  static Cost layer_cost(const Init& init, int64_t i, const Workload& w) {
    return KimiDecoderLayer::cost(layer(init, i), w);
  }
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<KimiLinearForCausalLM>> cases();
};

}  // namespace fk
