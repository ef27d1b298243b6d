// RWKV7ForCausalLM: RWKV 7 as a language model.
#pragma once

#include "ops/l3/rwkv7_block.h"
#include "ops/l4/causal_lm.h"

namespace fk {

// rms_norm_eps of the base is that of the layer norms, head_dim that of the heads.
struct RWKV7ForCausalLMInit : DecoderModelInit {
  int64_t decay_low_rank_dim = 64;
  int64_t gate_low_rank_dim = 128;
  int64_t a_low_rank_dim = 64;
  int64_t v_low_rank_dim = 16;
  bool norm_bias = true;
  bool norm_first = true;
  bool fuse_norm = true;  // as in RWKV7Attention

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderModelInit::visit(v);
    v("decay_low_rank_dim", decay_low_rank_dim);
    v("gate_low_rank_dim", gate_low_rank_dim);
    v("a_low_rank_dim", a_low_rank_dim);
    v("v_low_rank_dim", v_low_rank_dim);
    v("norm_bias", norm_bias);
    v("norm_first", norm_first);
    v("fuse_norm", fuse_norm);
  }
};

class RWKV7ForCausalLM : public CausalLM<RWKV7ForCausalLM, RWKV7ForCausalLMInit> {
 public:
  static constexpr std::string_view kName = "rwkv7_for_causal_lm";
  static constexpr std::string_view kClass = "RWKV7ForCausalLM";

  using CausalLM::CausalLM;

  static RWKV7Block::Init layer(const Init& init, int64_t i);
  static Cost layer_cost(const Init& init, int64_t i, const Workload& w) { return RWKV7Block::cost(layer(init, i), w); }
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<RWKV7ForCausalLM>> cases();
};

}  // namespace fk
