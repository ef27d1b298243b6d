// KimiDecoderLayer: Kimi delta attention or latent attention without a rotary embedding, then a feed-forward block or
// experts.
#pragma once

#include "ops/l2/kimi_delta_attention.h"
#include "ops/l3/mla_decoder_layer.h"

namespace fk {

struct KimiDecoderLayerInit : MLADecoderLayerInit<DeepseekV2MLAAttention> {
  KimiDeltaAttention::Init linear = {};  // with heads: in place of attention

  bool is_linear() const { return linear.num_heads > 0; }

  template <class Visitor>
  void visit(Visitor&& v) {
    MLADecoderLayerInit::visit(v);
    v("linear", linear);
  }
};

class KimiDecoderLayer : public Operator {
 public:
  static constexpr std::string_view kName = "kimi_decoder_layer";
  static constexpr std::string_view kClass = "KimiDecoderLayer";
  static constexpr int kLevel = 3;
  using Init = KimiDecoderLayerInit;

  // As in DecoderLayer.
  static constexpr std::array kArgs = DecoderLayer::kArgs;

  explicit KimiDecoderLayer(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
                       View residual_out) = 0;

  static OutputSpecs outputs(const Init&, Args given) { return {given[1]->spec(), given[1]->spec()}; }
  static Inputs inputs(const Init& init, const Workload& w);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<KimiDecoderLayer>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
