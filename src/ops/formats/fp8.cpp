// FP8 e4m3 with f32 scales: one for every block of 128 x 128 elements (DeepSeek V3, Qwen 3: quant_method fp8), or one
// for every row, or one for the whole matrix (compressed-tensors, which can have blocks, too). An element is its code
// times its scale.
#include <array>

#include "ops/formats/scaled_format.h"

namespace fk {
namespace fp8 {
namespace {

constexpr int64_t kBlock = 128;
// Of the codes that tests and dummy weights have: far from the largest, 448, and from the numbers below 2^-6.
constexpr double kDeviation = 54;

const std::array<float, 256>& values_of_codes() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> all{};
    for (size_t i = 0; i < all.size(); ++i) {
      f8e4m3 code;
      code.bits = static_cast<uint8_t>(i);
      all[i] = static_cast<float>(code);
    }
    return all;
  }();
  return values;
}

enum class Scales : uint8_t { kBlocks, kRows, kMatrix };

class Fp8 final : public ScaledFormat {
 public:
  Fp8(Scales scales, std::string_view scale_name) : scales_(scales), scale_name_(scale_name) {}

  std::string_view op() const override { return "fp8_linear"; }
  ActivationRounding activations() const override { return {.fp8 = true, .int8_group = kBlock}; }

  std::vector<ParamSpec> tensors(int64_t rows, int64_t columns) const override {
    Shape shape = scales_ == Scales::kBlocks ? Shape{blocks(rows), blocks(columns)}
                  : scales_ == Scales::kRows ? Shape{rows, 1}
                                             : Shape{1};
    ParamSpec weight{"weight", {{rows, columns}, DType::kF8E4M3}};
    weight.fill = Generator::normal(0, kDeviation);
    ParamSpec scale{std::string(scale_name_), {shape, DType::kF32}};
    scale.fill = scales_for(columns, kDeviation);
    return {weight, scale};
  }

  void dequantise(std::span<const View> tensors, int64_t row, std::span<float> values) const override {
    const View codes = tensors[0].select(0, row);
    const View& scales = tensors[1];
    auto columns = static_cast<int64_t>(values.size());
    int64_t run = scales_ == Scales::kBlocks ? kBlock : columns;
    for (int64_t begin = 0; begin < columns; begin += run) {
      double scale = scales_ == Scales::kBlocks ? get(scales, row / kBlock, begin / kBlock)
                     : scales_ == Scales::kRows ? get(scales, row, 0)
                                                : get(scales, 0);
      multiply(codes, begin, std::min(run, columns - begin), static_cast<float>(scale), values.data());
    }
  }

 private:
  static int64_t blocks(int64_t size) { return (size + kBlock - 1) / kBlock; }

  static void multiply(const View& codes, int64_t begin, int64_t count, float scale, float* to) {
    if (codes.dtype() != DType::kF8E4M3) {
      for (int64_t i = begin; i < begin + count; ++i) to[i] = static_cast<float>(get(codes, i)) * scale;
      return;
    }
    const auto* from = static_cast<const uint8_t*>(codes.data());
    const std::array<float, 256>& values = values_of_codes();
    for (int64_t i = begin; i < begin + count; ++i) to[i] = values[from[i]] * scale;
  }

  Scales scales_;
  std::string_view scale_name_;
};

const RegisterScaledFormat kFp8Block("fp8_block", [](int64_t) -> std::unique_ptr<ScaledFormat> {
  return std::make_unique<Fp8>(Scales::kBlocks, "weight_scale_inv");
});
const RegisterScaledFormat kFp8BlockScale("fp8_block_scale", [](int64_t) -> std::unique_ptr<ScaledFormat> {
  return std::make_unique<Fp8>(Scales::kBlocks, "weight_scale");
});
const RegisterScaledFormat kFp8Channel("fp8_channel", [](int64_t) -> std::unique_ptr<ScaledFormat> {
  return std::make_unique<Fp8>(Scales::kRows, "weight_scale");
});
const RegisterScaledFormat kFp8Tensor("fp8_tensor", [](int64_t) -> std::unique_ptr<ScaledFormat> {
  return std::make_unique<Fp8>(Scales::kMatrix, "weight_scale");
});

}  // namespace
}  // namespace fp8
}  // namespace fk
