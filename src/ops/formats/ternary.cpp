// Ternary weights of BitNet b1.58: -1, 0 and 1 in 2 bits, one more than the value, and one scale for the whole matrix.
//
// weight u8 [N/4, K]: bits 2 i and 2 i + 1 of byte row r are those of row r + i N/4. weight_scale f32 [1] multiplies
// ("ternary", linear_class autobitlinear) or divides ("ternary_inverse", linear_class bitlinear).
#include "ops/formats/ternary.h"

#include "ops/formats/scaled_format.h"

namespace fk {
namespace ternary {
namespace {

constexpr int64_t kPerByte = 4;
constexpr int8_t kCodes[] = {-1, 0, 1, 2};  // checkpoints have no code 3, whose value would be 2
constexpr double kDeviation = 0.7071;       // half of the dummy elements are 0

template <bool kInverse>
class Ternary final : public IntegerFormat {
 public:
  std::string_view op() const override { return "ternary_linear"; }
  // One scale for a token: what such models are trained with.
  ActivationRounding activations() const override { return {}; }
  std::span<const int8_t> code_values() const override { return kCodes; }

  std::vector<ParamSpec> tensors(int64_t rows, int64_t columns) const override {
    check_multiple("ternary", "output features", rows, kPerByte);
    ParamSpec codes{"weight", {{rows / kPerByte, columns}, DType::kU8}};
    codes.fill = Generator::integers(0, kLargestTernaryByte + 1);
    ParamSpec scale{"weight_scale", {{1}, DType::kF32}};
    scale.fill = scales_for(columns, kDeviation);
    if (kInverse) scale.fill = Generator::uniform(1 / scale.fill->b, 1 / scale.fill->a);
    return {codes, scale};
  }

  void codes(std::span<const View> tensors, int64_t row, std::span<int8_t> codes, float* scales,
             float*) const override {
    int64_t byte_rows = tensors[0].size(0), shift = 2 * (row / byte_rows);
    const auto* bytes = static_cast<const uint8_t*>(tensors[0].data()) + row % byte_rows * tensors[0].stride(0);
    for (size_t k = 0; k < codes.size(); ++k) codes[k] = static_cast<int8_t>((bytes[k] >> shift & 3) - 1);
    auto scale = static_cast<float>(get(tensors[1], 0));
    scales[0] = kInverse ? 1 / scale : scale;
  }
};

const RegisterScaledFormat kTernary("ternary", [](int64_t) -> std::unique_ptr<ScaledFormat> {
  return std::make_unique<Ternary<false>>();
});
const RegisterScaledFormat kTernaryInverse("ternary_inverse", [](int64_t) -> std::unique_ptr<ScaledFormat> {
  return std::make_unique<Ternary<true>>();
});

}  // namespace
}  // namespace ternary
}  // namespace fk
