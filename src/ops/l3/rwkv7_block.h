// RWKV7Block: a layer of RWKV 7. Beside hidden states it passes on the values of the first layer.
#pragma once

#include "ops/l2/rwkv7_attention.h"
#include "ops/l2/rwkv7_feed_forward.h"

namespace fk {

class RWKV7Block : public Operator {
 public:
  static constexpr std::string_view kName = "rwkv7_block";
  static constexpr std::string_view kClass = "RWKV7Block";
  static constexpr int kLevel = 3;

  struct Init {
    RWKV7Attention::Init attention = {};
    RWKV7FeedForward::Init mlp = {};
    double norm_eps = 1e-5;
    bool norm_bias = true;
    bool pre_norm = false;  // embeddings are normed first; of the first layer

    template <class Visitor>
    void visit(Visitor&& v) {
      v("attention", attention);
      v("mlp", mlp);
      v("norm_eps", norm_eps);
      v("norm_bias", norm_bias);
      v("pre_norm", pre_norm);
    }
  };

  // As of DecoderLayer: hidden_states and residual [T, D]. v_first and v_first_out as of RWKV7Attention.
  static constexpr std::array kArgs{in("hidden_states"), opt_in("residual"),  opt_in("v_first"),
                                    out("out"),          out("residual_out"), opt_out("v_first_out")};

  explicit RWKV7Block(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View hidden_states, OptView residual, OptView v_first, View out, View residual_out,
                       OptView v_first_out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<RWKV7Block>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
