// MambaForCausalLM: Mamba, whose layers are selective state spaces without attention.
#pragma once

#include "ops/l3/mamba_decoder_layer.h"
#include "ops/l4/causal_lm.h"

namespace fk {

struct MambaForCausalLMInit : DecoderModelInit {  // intermediate_size is that of the blocks
  int64_t state_size = 16;
  int64_t conv_kernel = 4;
  int64_t time_step_rank = 0;
  bool use_conv_bias = true;
  bool use_bias = false;
  std::string inner_norms = {};  // as in MambaMixerInit
  double inner_norm_eps = 1e-6;

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    v("state_size", state_size);
    v("conv_kernel", conv_kernel);
    v("time_step_rank", time_step_rank);
    v("use_conv_bias", use_conv_bias);
    v("use_bias", use_bias);
    v("inner_norms", inner_norms);
    v("inner_norm_eps", inner_norm_eps);
  }
};

// The arguments of the Mamba blocks of a model.
MambaMixerInit mamba_mixer(const MambaForCausalLMInit& init);

class MambaForCausalLM : public CausalLM<MambaForCausalLM, MambaForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "mamba_for_causal_lm";
  static constexpr std::string_view kClass = "MambaForCausalLM";
  using CausalLM::CausalLM;

  static MambaDecoderLayer::Init layer(const Init& init, int64_t i);
  static Cost layer_cost(const Init& init, int64_t i, const Workload& w) {
    return MambaDecoderLayer::cost(layer(init, i), w);
  }
  static std::vector<Case<MambaForCausalLM>> cases();
};

}  // namespace fk
