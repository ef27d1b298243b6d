// NVFP4 as compressed-tensors stores it: floats of 4 bits (e2m1), two in a byte, the first in the low half; for every
// 16 of a row a scale in FP8 e4m3, which is divided by a scale of the whole matrix.
//
// weight_packed u8 [N, K/2], weight_scale e4m3 [N, K/16], weight_global_scale f32 [1]. Twice an e2m1 is a whole number,
// so that codes are integers and half of the scale is theirs.
#include "ops/formats/scaled_format.h"

namespace fk {
namespace nvfp4 {
namespace {

constexpr int64_t kGroup = 16;
constexpr std::string_view kName = "nvfp4";
constexpr int8_t kTwiceE2M1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr double kDeviation = 2.93;       // of any e2m1
constexpr double kLow = 64, kHigh = 192;  // of the scales of groups, whose range ends at 448

class Nvfp4 final : public IntegerFormat {
 public:
  std::string_view op() const override { return "nvfp4_linear"; }
  ActivationRounding activations() const override { return {.fp8 = true, .int8_group = 128}; }
  int64_t code_group(int64_t) const override { return kGroup; }
  std::span<const int8_t> code_values() const override { return kTwiceE2M1; }

  std::vector<ParamSpec> tensors(int64_t rows, int64_t columns) const override {
    check_multiple(kName, "input features", columns, kGroup);
    ParamSpec codes{"weight_packed", {{rows, columns / 2}, DType::kU8}};
    codes.fill = any_bits(DType::kU8);
    ParamSpec scales{"weight_scale", {{rows, columns / kGroup}, DType::kF8E4M3}};
    scales.fill = Generator::uniform(kLow, kHigh);
    ParamSpec whole{"weight_global_scale", {{1}, DType::kF32}};
    Generator unit = scales_for(columns, kDeviation);
    double middle = (unit.a + unit.b) / 2;
    whole.fill = Generator::uniform(0.9 * (kLow + kHigh) / 2 / middle, 1.1 * (kLow + kHigh) / 2 / middle);
    return {codes, scales, whole};
  }

  void codes(std::span<const View> tensors, int64_t row, std::span<int8_t> codes, float* scales,
             float*) const override {
    const auto* bytes = static_cast<const uint8_t*>(tensors[0].data()) + row * tensors[0].stride(0);
    for (size_t i = 0; i < codes.size(); i += 2) {
      codes[i] = kTwiceE2M1[bytes[i / 2] & 15];
      codes[i + 1] = kTwiceE2M1[bytes[i / 2] >> 4];
    }
    auto whole = static_cast<float>(get(tensors[2], 0));
    for (int64_t g = 0; g < static_cast<int64_t>(codes.size()) / kGroup; ++g)
      scales[g] = 0.5f * (static_cast<float>(get(tensors[1], row, g)) / whole);
  }
};

const RegisterScaledFormat kNvfp4(kName,
                                  [](int64_t) -> std::unique_ptr<ScaledFormat> { return std::make_unique<Nvfp4>(); });

}  // namespace
}  // namespace nvfp4
}  // namespace fk
