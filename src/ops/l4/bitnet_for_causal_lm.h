// BitNetForCausalLM: BitNet b1.58: ternary matrices, activations rounded to 8 bits, norms inside the blocks.
#pragma once

#include "ops/l4/causal_lm.h"

namespace fk {

// Without a weight_format matrices are elements of dtype, and activations are not rounded.
struct BitNetForCausalLMInit : DecoderModelInit {
  bool attention_bias = false;  // of all four projections

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    v("attention_bias", attention_bias);
  }
};

class BitNetForCausalLM : public CausalLM<BitNetForCausalLM, BitNetForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "bitnet_for_causal_lm";
  static constexpr std::string_view kClass = "BitNetForCausalLM";

  using CausalLM::CausalLM;

  static DecoderLayerInit layer(const Init& init, int64_t i);
  static std::vector<Case<BitNetForCausalLM>> cases();
};

}  // namespace fk
