// The common part of the decoder layers of all families: constructor, signature and cost.
#pragma once

#include "ops/l2/attention_block.h"
#include "ops/l2/mlp_block.h"
#include "ops/l4/causal_lm_config.h"

namespace fk {

struct DecoderLayerInit {
  CausalLMConfig config = {};
  int64_t sliding_window = 0;  // of this layer; 0: it sees all keys

  template <class Visitor>
  void visit(Visitor&& v) {
    v("config", config);
    v("sliding_window", sliding_window);
  }

  // Layer i of a model. Settings that differ between layers become separate arguments and are removed from the config,
  // so that equal layers have equal arguments.
  static DecoderLayerInit of_layer(const CausalLMConfig& config, int64_t i);
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
  static Tolerance tolerance(const Init& init, DType dtype);

  static bool slides(const Init& init) { return init.sliding_window > 0; }
  static AttentionBlockInit attention(const Init& init);
  static MlpBlockInit mlp(const Init& init);

 protected:
  const Init init_;
};

}  // namespace fk
