// Llama4DecoderLayer: a layer of Llama 4, with experts or a feed-forward block.
#pragma once

#include "ops/l2/llama4_attention.h"
#include "ops/l2/llama4_moe.h"
#include "ops/l3/decoder_layer.h"

namespace fk {

struct Llama4DecoderLayerInit {
  Llama4AttentionInit attention = {};
  MlpBlockInit mlp = {};
  SparseMoeBlockInit moe = {};  // without experts the layer has the feed-forward block `mlp`
  double rms_norm_eps = 1e-6;   // of the layer's own norms

  bool has_experts() const { return moe.num_experts > 0; }

  template <class Visitor>
  void visit(Visitor&& v) {
    v("attention", attention);
    v("mlp", mlp);
    v("moe", moe);
    v("rms_norm_eps", rms_norm_eps);
  }
};

class Llama4DecoderLayer : public Operator {
 public:
  static constexpr std::string_view kName = "llama4_decoder_layer";
  static constexpr std::string_view kClass = "Llama4DecoderLayer";
  static constexpr int kLevel = 3;
  using Init = Llama4DecoderLayerInit;

  // As in DecoderLayer.
  static constexpr std::array kArgs = DecoderLayer::kArgs;

  explicit Llama4DecoderLayer(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
                       View residual_out) = 0;

  static OutputSpecs outputs(const Init&, Args given) { return {given[1]->spec(), given[1]->spec()}; }
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<Llama4DecoderLayer>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
