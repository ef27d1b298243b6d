// SiglipMultiheadAttentionPoolingHead: a learned query attends to all patches of an image, and a feed-forward block
// follows: one vector for each image.
#pragma once

#include "ops/l2/siglip_attention.h"
#include "ops/l2/siglip_mlp.h"

namespace fk {

class SiglipMultiheadAttentionPoolingHead : public Operator {
 public:
  static constexpr std::string_view kName = "siglip_multihead_attention_pooling_head";
  static constexpr std::string_view kClass = "SiglipMultiheadAttentionPoolingHead";
  static constexpr int kLevel = 2;

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

  // hidden_states [T, D], cu_seqlens i32 [B+1] -> pooled [B, D]. probe [1, 1, D] is the learned query.
  static constexpr std::array kArgs{in("hidden_states"), in("cu_seqlens"), out("pooled")};

  explicit SiglipMultiheadAttentionPoolingHead(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View hidden_states, View cu_seqlens, View pooled) = 0;

  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<SiglipMultiheadAttentionPoolingHead>> cases();

 protected:
  const View& probe() const { return param(0); }
  const Init init_;
};

}  // namespace fk
