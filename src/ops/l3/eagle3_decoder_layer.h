// Eagle3DecoderLayer: the one layer of an EAGLE-3 head. It attends over pairs: the embedding of a token, and a hidden
// state of the token before it, each with a norm of its own.
#pragma once

#include "ops/l2/eagle3_attention.h"
#include "ops/l3/decoder_layer.h"

namespace fk {

struct Eagle3DecoderLayerInit : DecoderLayerInit {
  bool norm_before_residual = false;  // the residual is the hidden state behind its norm

  template <class Visitor>
  void visit(Visitor&& v) {
    DecoderLayerInit::visit(v);
    v("norm_before_residual", norm_before_residual);
  }
};

class Eagle3DecoderLayer : public Operator {
 public:
  static constexpr std::string_view kName = "eagle3_decoder_layer";
  static constexpr std::string_view kClass = "Eagle3DecoderLayer";
  static constexpr int kLevel = 3;
  using Init = Eagle3DecoderLayerInit;

  // positions i64 [T]; embeds, hidden_states [T, D] -> out, and the residual it is to be added to, [T, D].
  static constexpr std::array kArgs{in("positions"), in("embeds"), in("hidden_states"), out("out"),
                                    out("residual_out")};

  explicit Eagle3DecoderLayer(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View positions, View embeds, View hidden_states, View out, View residual_out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype) { return DecoderLayer::tolerance(init, dtype); }
  static std::vector<Case<Eagle3DecoderLayer>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
