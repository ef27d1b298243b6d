// SiglipVisionEmbeddings: a vector for each patch of an image, and the embedding of the patch's position added to it.
#pragma once

#include "ops/l1/conv2d.h"

namespace fk {

class SiglipVisionEmbeddings : public Operator {
 public:
  static constexpr std::string_view kName = "siglip_vision_embeddings";
  static constexpr std::string_view kClass = "SiglipVisionEmbeddings";
  static constexpr int kLevel = 2;

  struct Init {
    int64_t hidden_size = 0;
    int64_t num_channels = 3;
    int64_t image_size = 0;  // height and width, in pixels
    int64_t patch_size = 0;
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("hidden_size", hidden_size);
      v("num_channels", num_channels);
      v("image_size", image_size);
      v("patch_size", patch_size);
      v("dtype", dtype);
    }
  };

  // pixel_values [B, C, H, W]; positions i64 [T]: of patch p of an image, p -> out [T, D]; T is B times the patches.
  static constexpr std::array kArgs{in("pixel_values"), in("positions"), out("out")};

  explicit SiglipVisionEmbeddings(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View pixel_values, View positions, View out) = 0;

  static Conv2d::Init patches(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  // A sequence of a workload is an image, whatever its length.
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<SiglipVisionEmbeddings>> cases();

 protected:
  const Init init_;
};

// `images` sequences of as many tokens as an image has patches.
Workload image_workload(int64_t images, int64_t patches);

}  // namespace fk
