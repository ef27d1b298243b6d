// Conv2d: a convolution of images of one size, with the channels of its output last: a row for each place, as the
// tokens of a vision transformer are.
#pragma once

#include "ops/contract.h"

namespace fk {

class Conv2d : public Operator {
 public:
  static constexpr std::string_view kName = "conv2d";
  static constexpr std::string_view kClass = "Conv2dLayer";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t in_channels = 0;
    int64_t out_channels = 0;
    int64_t kernel_size = 1;  // height and width
    int64_t stride = 1;
    int64_t padding = 0;  // zeros around the image, on each side
    int64_t image_height = 0;
    int64_t image_width = 0;
    bool bias = true;
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("in_channels", in_channels);
      v("out_channels", out_channels);
      v("kernel_size", kernel_size);
      v("stride", stride);
      v("padding", padding);
      v("image_height", image_height);
      v("image_width", image_width);
      v("bias", bias);
      v("dtype", dtype);
    }

    // Places of the output. Pixels behind the last whole step are left out.
    int64_t out_height() const { return (image_height + 2 * padding - kernel_size) / stride + 1; }
    int64_t out_width() const { return (image_width + 2 * padding - kernel_size) / stride + 1; }
    int64_t places() const { return out_height() * out_width(); }
    int64_t window() const { return in_channels * kernel_size * kernel_size; }  // pixels one place sees
  };

  // x [B, C, H, W], the pixels of an image contiguous -> out [B, places, out_channels], places row by row. weight
  // [out_channels, C, kernel_size, kernel_size].
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit Conv2d(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  // The tokens of a workload are images.
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<Conv2d>> cases();

 protected:
  // Why no implementation supports such a call; empty if one may.
  std::string_view refuse_call(Args args) const;

  const View& weight() const { return param(0); }
  const void* bias_data() const { return init_.bias ? param(1).data() : nullptr; }
  const Init init_;
};

}  // namespace fk
