// SiglipVisionModel: the vision tower of SigLIP and SigLIP 2 for images of one size.
#pragma once

#include "ops/l2/siglip_multihead_attention_pooling_head.h"
#include "ops/l2/siglip_vision_embeddings.h"
#include "ops/l3/siglip_encoder_layer.h"
#include "ops/l4/encoder_model.h"

namespace fk {

class SiglipVisionModel : public Operator {
 public:
  static constexpr std::string_view kName = "siglip_vision_model";
  static constexpr std::string_view kClass = "SiglipVisionModel";
  static constexpr int kLevel = 4;

  struct Init {
    int64_t hidden_size = 0;
    int64_t intermediate_size = 0;
    int64_t num_hidden_layers = 0;
    int64_t num_attention_heads = 0;
    int64_t num_channels = 3;
    int64_t image_size = 0;
    int64_t patch_size = 0;
    double layer_norm_eps = 1e-6;
    std::string hidden_act = "gelu_pytorch_tanh";
    bool vision_use_head = true;
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("hidden_size", hidden_size);
      v("intermediate_size", intermediate_size);
      v("num_hidden_layers", num_hidden_layers);
      v("num_attention_heads", num_attention_heads);
      v("num_channels", num_channels);
      v("image_size", image_size);
      v("patch_size", patch_size);
      v("layer_norm_eps", layer_norm_eps);
      v("hidden_act", hidden_act);
      v("vision_use_head", vision_use_head);
      v("dtype", dtype);
    }
  };

  // pixel_values [B, C, H, W]; positions i64 [T]: of patch p of an image, p; cu_seqlens i32 [B+1]: where the patches of
  // each image start -> last_hidden_state [T, D] and, with a head, pooler_output [B, D].
  static constexpr std::array kArgs{in("pixel_values"), in("positions"), in("cu_seqlens"), out("last_hidden_state"),
                                    opt_out("pooler_output")};

  explicit SiglipVisionModel(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View pixel_values, View positions, View cu_seqlens, View last_hidden_state,
                       OptView pooler_output) = 0;

  static SiglipVisionEmbeddings::Init embeddings(const Init& init);
  static SiglipEncoderLayer::Init layer(const Init& init);
  static SiglipMultiheadAttentionPoolingHead::Init head(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Workload possible(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<SiglipVisionModel>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
