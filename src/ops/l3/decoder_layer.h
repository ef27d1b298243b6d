// The common part of the decoder layers of all families: constructor, signature and cost.
#pragma once

#include "ops/l2/attention_block.h"
#include "ops/l2/mlp_block.h"

namespace fk {

struct DecoderLayerInit {
  AttentionBlockInit attention = {};
  MlpBlockInit mlp = {};
  double rms_norm_eps = 1e-6;  // of the layer's own norms

  template <class Visitor>
  void visit(Visitor&& v) {
    v("attention", attention);
    v("mlp", mlp);
    v("rms_norm_eps", rms_norm_eps);
  }
};

class DecoderLayer : public Operator {
 public:
  static constexpr int kLevel = 3;
  using Init = DecoderLayerInit;

  // A layer passes on a pair: the output of the last block, and the residual (the sum of all outputs before it). The
  // first layer gets no residual. positions i64 [T]; the others [T, D].
  static constexpr std::array kArgs{in("positions"), in("hidden_states"), opt_in("residual"), out("out"),
                                    out("residual_out")};

  explicit DecoderLayer(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View positions, View hidden_states, OptView residual, View out,
                       View residual_out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  // The same with a feed-forward block of another cost.
  static Cost cost_with(const AttentionBlockInit& attention, const Cost& feed_forward, const Workload& workload) {
    return cost_of_blocks(attention.hidden_size, AttentionBlock::cost(attention, workload), feed_forward, workload);
  }
  static Cost cost_of_blocks(int64_t hidden_size, const Cost& attention, const Cost& feed_forward,
                             const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);

  // A norm over the model's width, of any norm operator whose Init has these fields.
  template <class Norm>
  static typename Norm::Init norm(const Init& init) {
    return {.hidden_size = init.attention.hidden_size, .eps = init.rms_norm_eps, .dtype = init.attention.dtype};
  }

 protected:
  const Init init_;
};

}  // namespace fk
