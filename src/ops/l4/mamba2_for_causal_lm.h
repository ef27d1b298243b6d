// Mamba2ForCausalLM: Mamba 2, whose layers are state spaces with one decay for each head.
#pragma once

#include "ops/l3/mamba2_decoder_layer.h"
#include "ops/l4/causal_lm.h"

namespace fk {

struct Mamba2ForCausalLMInit : DecoderModelInit {  // num_attention_heads and head_dim are those of the blocks
  int64_t state_size = 128;
  int64_t n_groups = 8;
  int64_t conv_kernel = 4;
  bool use_conv_bias = true;
  bool use_bias = false;

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    v("state_size", state_size);
    v("n_groups", n_groups);
    v("conv_kernel", conv_kernel);
    v("use_conv_bias", use_conv_bias);
    v("use_bias", use_bias);
  }
};

class Mamba2ForCausalLM : public CausalLM<Mamba2ForCausalLM, Mamba2ForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "mamba2_for_causal_lm";
  static constexpr std::string_view kClass = "Mamba2ForCausalLM";
  using CausalLM::CausalLM;

  static Mamba2DecoderLayer::Init layer(const Init& init, int64_t i);
  static Cost layer_cost(const Init& init, int64_t i, const Workload& w) {
    return Mamba2DecoderLayer::cost(layer(init, i), w);
  }
  static std::vector<Case<Mamba2ForCausalLM>> cases();
};

}  // namespace fk
