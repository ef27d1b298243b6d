// LLaDALlamaBlock: a layer of LLaDA: norm, attention to the whole sequence, norm, feed-forward block.
#pragma once

#include "ops/l2/llada_attention.h"
#include "ops/l3/decoder_layer.h"

namespace fk {

class LLaDALlamaBlock : public Operator {
 public:
  static constexpr std::string_view kName = "llada_llama_block";
  static constexpr std::string_view kClass = "LLaDALlamaBlock";
  static constexpr int kLevel = 3;
  using Init = DecoderLayerInit;

  // As in DecoderLayer, and cu_seqlens i32 [S+1]: where the tokens of each sequence start.
  static constexpr std::array kArgs{in("positions"),    in("hidden_states"), in("cu_seqlens"),
                                    opt_in("residual"), out("out"),          out("residual_out")};

  explicit LLaDALlamaBlock(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View positions, View hidden_states, View cu_seqlens, OptView residual, View out,
                       View residual_out) = 0;

  static OutputSpecs outputs(const Init&, Args given) { return {given[1]->spec(), given[1]->spec()}; }
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype) { return DecoderLayer::tolerance(init, dtype); }
  static std::vector<Case<LLaDALlamaBlock>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
