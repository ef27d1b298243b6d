// Integers of 4 bits in words of 32, with one scale, and in some checkpoints one zero point, for every group of a row:
//
//   int4_gptq         qweight [K/8, N], qzeros [groups, N/8], scales [groups, N]; a zero point is one more than stored
//   int4_gptq_v2      the same with zero points as they are
//   int4_awq          qweight [K, N/8], qzeros [groups, N/8], scales [groups, N]; the elements of a word are those of
//                     rows 0, 2, 4, 6, 1, 3, 5, 7
//   int4_packed       compressed-tensors: weight_packed [N, K/8], weight_scale [N, groups]; the zero point is 8
//   int4_packed_asym  the same with weight_zero_point [N/8, groups]
//
// Words hold eight elements, the lowest bits first. An element is (code - zero point) * scale.
#include "ops/formats/scaled_format.h"

namespace fk {
namespace int4 {
namespace {

constexpr int64_t kPerWord = 8, kBits = 4;
constexpr int kMiddle = 8;                                     // codes are stored from 0 to 15, and given from -8 to 7
constexpr int kAwqPlace[kPerWord] = {0, 4, 1, 5, 2, 6, 3, 7};  // of row r % 8 in its word
constexpr int8_t kCodes[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
// Of a code minus a random zero point, both any of 16.
constexpr double kDeviation = 6.5, kDeviationSymmetric = 4.6;

enum class Layout : uint8_t { kGptq, kGptqV2, kAwq, kPacked, kPackedAsym };
constexpr std::string_view kNames[] = {"int4_gptq", "int4_gptq_v2", "int4_awq", "int4_packed", "int4_packed_asym"};

int nibble(uint32_t word, int64_t place) { return static_cast<int>(word >> (kBits * place) & 15); }

template <Layout kLayout>
class Int4 final : public IntegerFormat {
 public:
  explicit Int4(int64_t group) : group_(group) {}

  std::string_view op() const override { return "int4_linear"; }
  ActivationRounding activations() const override { return {.int8_group = 128}; }
  int64_t code_group(int64_t columns) const override { return group_ == 0 ? columns : group_; }
  bool has_offsets() const override { return kLayout != Layout::kPacked; }
  std::span<const int8_t> code_values() const override { return kCodes; }

  std::vector<ParamSpec> tensors(int64_t rows, int64_t columns) const override {
    std::string_view name = kNames[static_cast<size_t>(kLayout)];
    int64_t groups = groups_of(name, columns, group_);
    if (kLayout != Layout::kAwq) check_multiple(name, "input features", columns, kPerWord);
    if (has_offsets()) check_multiple(name, "output features", rows, kPerWord);
    ParamSpec codes{kByRows ? "weight_packed" : "qweight",
                    {kByRows                   ? Shape{rows, columns / kPerWord}
                     : kLayout == Layout::kAwq ? Shape{columns, rows / kPerWord}
                                               : Shape{columns / kPerWord, rows},
                     DType::kI32}};
    ParamSpec zeros{kByRows ? "weight_zero_point" : "qzeros",
                    {kByRows ? Shape{rows / kPerWord, groups} : Shape{groups, rows / kPerWord}, DType::kI32}};
    ParamSpec scales{kByRows ? "weight_scale" : "scales",
                     {kByRows ? Shape{rows, groups} : Shape{groups, rows}, DType::kF32}};
    codes.fill = zeros.fill = any_bits(DType::kI32);
    scales.fill = scales_for(columns, has_offsets() ? kDeviation : kDeviationSymmetric);
    if (!has_offsets()) return {codes, scales};
    return {codes, zeros, scales};
  }

  void codes(std::span<const View> tensors, int64_t row, std::span<int8_t> codes, float* scales,
             float* offsets) const override {
    auto columns = static_cast<int64_t>(codes.size());
    int64_t groups = columns / code_group(columns);
    const View& of_scales = tensors.back();
    for (int64_t g = 0; g < groups; ++g) {
      scales[g] = static_cast<float>(kByRows ? get(of_scales, row, g) : get(of_scales, g, row));
      if constexpr (kLayout != Layout::kPacked) offsets[g] = static_cast<float>(zero_point(tensors[1], row, g));
    }
    const auto* words = static_cast<const uint32_t*>(tensors[0].data());
    int64_t stride = tensors[0].stride(0);
    if constexpr (kLayout == Layout::kAwq) {
      words += row / kPerWord;
      int place = kAwqPlace[row % kPerWord];
      for (int64_t k = 0; k < columns; ++k)
        codes[static_cast<size_t>(k)] = static_cast<int8_t>(nibble(words[k * stride], place) - kMiddle);
    } else {
      words += kByRows ? row * stride : row;
      int64_t step = kByRows ? 1 : stride;
      for (int64_t k = 0; k < columns; k += kPerWord) {
        uint32_t word = words[k / kPerWord * step];
        for (int64_t i = 0; i < kPerWord; ++i)
          codes[static_cast<size_t>(k + i)] = static_cast<int8_t>(nibble(word, i) - kMiddle);
      }
    }
  }

 private:
  static constexpr bool kByRows = kLayout == Layout::kPacked || kLayout == Layout::kPackedAsym;

  // As a code.
  static int zero_point(const View& zeros, int64_t row, int64_t group) {
    int64_t word = row / kPerWord, place = kLayout == Layout::kAwq ? kAwqPlace[row % kPerWord] : row % kPerWord;
    const auto* words = static_cast<const uint32_t*>(zeros.data());
    int64_t at = kByRows ? word * zeros.stride(0) + group : group * zeros.stride(0) + word;
    return nibble(words[at], place) + (kLayout == Layout::kGptq ? 1 : 0) - kMiddle;
  }

  int64_t group_;
};

template <Layout kLayout>
std::unique_ptr<ScaledFormat> make(int64_t group) {
  return std::make_unique<Int4<kLayout>>(group);
}

const RegisterScaledFormat kGptq(kNames[0], make<Layout::kGptq>, true);
const RegisterScaledFormat kGptqV2(kNames[1], make<Layout::kGptqV2>, true);
const RegisterScaledFormat kAwq(kNames[2], make<Layout::kAwq>, true);
const RegisterScaledFormat kPacked(kNames[3], make<Layout::kPacked>, true);
const RegisterScaledFormat kPackedAsym(kNames[4], make<Layout::kPackedAsym>, true);

}  // namespace
}  // namespace int4
}  // namespace fk
