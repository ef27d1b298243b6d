// SiglipEncoderLayer: attention and a feed-forward block, each after a norm and added to what came in.
#pragma once

#include "ops/l2/siglip_attention.h"
#include "ops/l2/siglip_mlp.h"

namespace fk {

class SiglipEncoderLayer : public Operator {
 public:
  static constexpr std::string_view kName = "siglip_encoder_layer";
  static constexpr std::string_view kClass = "SiglipEncoderLayer";
  static constexpr int kLevel = 3;

  struct Init {
    SiglipAttention::Init attention;
    SiglipMLP::Init mlp;
    double layer_norm_eps = 1e-6;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("attention", attention);
      v("mlp", mlp);
      v("layer_norm_eps", layer_norm_eps);
    }
  };

  // hidden_states [T, D], cu_seqlens i32 [B+1] -> out [T, D].
  static constexpr std::array kArgs{in("hidden_states"), in("cu_seqlens"), out("out")};

  explicit SiglipEncoderLayer(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View hidden_states, View cu_seqlens, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<SiglipEncoderLayer>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
