// int8_channel: signed bytes with one scale for every row (compressed-tensors int-quantized, W8A8), weight [N, K] and
// weight_scale [N, 1].
#include <cstring>

#include "ops/formats/scaled_format.h"

namespace fk {
namespace int8 {
namespace {

constexpr double kDeviation = 73.6;  // of any code from -127 to 127

class Int8 final : public IntegerFormat {
 public:
  std::string_view op() const override { return "int8_linear"; }
  // One scale for a token: what such checkpoints are made for.
  ActivationRounding activations() const override { return {}; }

  std::vector<ParamSpec> tensors(int64_t rows, int64_t columns) const override {
    ParamSpec codes{"weight", {{rows, columns}, DType::kI8}};
    codes.fill = any_bits(DType::kI8);
    ParamSpec scales{"weight_scale", {{rows, 1}, DType::kF32}};
    scales.fill = scales_for(columns, kDeviation);
    return {codes, scales};
  }

  void codes(std::span<const View> tensors, int64_t row, std::span<int8_t> codes, float* scales,
             float*) const override {
    std::memcpy(codes.data(), static_cast<const int8_t*>(tensors[0].data()) + row * tensors[0].stride(0), codes.size());
    scales[0] = static_cast<float>(get(tensors[1], row, 0));
  }
};

const RegisterScaledFormat kInt8("int8_channel",
                                 [](int64_t) -> std::unique_ptr<ScaledFormat> { return std::make_unique<Int8>(); });

}  // namespace
}  // namespace int8
}  // namespace fk
