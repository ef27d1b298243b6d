// Gemma4DecoderLayer: a layer of Gemma 4: norms before and after each block, experts beside the feed-forward block, and
// a number that the whole residual stream is multiplied by.
#pragma once

#include "ops/l2/gemma4_attention.h"
#include "ops/l2/gemma4_moe.h"
#include "ops/l3/decoder_layer.h"

namespace fk {

struct Gemma4DecoderLayerInit {
  Gemma4AttentionInit attention = {};
  MlpBlockInit mlp = {};
  Gemma4MoEInit moe = {};      // without experts the layer has only the feed-forward block
  double rms_norm_eps = 1e-6;  // of the layer's own norms

  bool has_experts() const { return moe.num_experts > 0; }

  template <class Visitor>
  void visit(Visitor&& v) {
    v("attention", attention);
    v("mlp", mlp);
    v("moe", moe);
    v("rms_norm_eps", rms_norm_eps);
  }
};

class Gemma4DecoderLayer : public Operator {
 public:
  static constexpr std::string_view kName = "gemma4_decoder_layer";
  static constexpr std::string_view kClass = "Gemma4DecoderLayer";
  static constexpr int kLevel = 3;
  using Init = Gemma4DecoderLayerInit;

  // positions i64 [T], hidden_states [T, D] -> out [T, D]. The stream is scaled as a whole at the end of each layer, so
  // that the residual cannot be passed on by itself as in other families.
  static constexpr std::array kArgs{in("positions"), in("hidden_states"), out("out")};

  explicit Gemma4DecoderLayer(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View positions, View hidden_states, View out) = 0;

  static OutputSpecs outputs(const Init&, Args given) { return {given[1]->spec()}; }
  static Inputs inputs(const Init& init, const Workload& w) { return Gemma4Attention::inputs(init.attention, w); }
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<Gemma4DecoderLayer>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
