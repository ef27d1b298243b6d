// Formats whose scales are tensors of their own: values equal to those of transformers and compressed-tensors exactly,
// sizes that do not fit, and names.
#include <gtest/gtest.h>

#include <cstring>

#include "core/error.h"
#include "core/json.h"
#include "ops/formats/format_map.h"
#include "ops/formats/scaled_format.h"
#include "ops/formats/weight_format.h"
#include "ops/l2/any_linear.h"
#include "ops/registry.h"

namespace fk {
namespace {

std::string from_hex(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

Tensor stored(const Json& json) {
  std::vector<int64_t> shape = json["shape"].get<std::vector<int64_t>>();
  Tensor tensor(Shape(std::span<const int64_t>(shape)), *dtype_from_name(json["dtype"].get<std::string>()));
  std::string bytes = from_hex(json["bytes"]);
  EXPECT_EQ(bytes.size(), tensor.view().size_bytes());
  std::memcpy(tensor.view().data(), bytes.data(), bytes.size());
  return tensor;
}

std::string sentence(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// tools/golden/scaled_formats.py writes the file.
TEST(ScaledFormats, ValuesAreExactlyThoseOfThePackages) {
  Json data = parse_json_file(FK_SOURCE_DIR "/tests/ops/data/scaled_formats.json");
  ASSERT_EQ(data.size(), 12u);
  for (const auto& [name, one] : data.items()) {
    const ScaledFormat& format = scaled_format(name);
    std::vector<Tensor> tensors;
    std::vector<View> views;
    for (const Json& tensor : one["tensors"]) tensors.push_back(stored(tensor));
    for (const Tensor& tensor : tensors) views.push_back(tensor.view());
    int64_t rows = one["matrix"][0], columns = one["matrix"][1];
    std::vector<ParamSpec> specs = format.tensors(rows, columns);
    ASSERT_EQ(specs.size(), views.size()) << name;
    for (size_t i = 0; i < specs.size(); ++i) EXPECT_EQ(specs[i].spec, views[i].spec()) << name << " " << specs[i].name;
    std::string expected = from_hex(one["values"]);
    std::vector<float> values(static_cast<size_t>(columns));
    size_t at = 0, bytes = values.size() * sizeof(float);
    for (int64_t row : one["rows"].get<std::vector<int64_t>>()) {
      format.dequantise(views, row, values);
      std::vector<float> of_row(values.size());  // as numbers: NVFP4 has a negative zero, integers have none
      std::memcpy(of_row.data(), expected.data() + at, bytes);
      ASSERT_EQ(values, of_row) << name << " row " << row;
      at += bytes;
    }
    EXPECT_EQ(at, expected.size());
  }
}

TEST(ScaledFormats, NamesHaveTheLengthOfGroups) {
  EXPECT_NE(find_scaled_format("int4_gptq_g128"), nullptr);
  EXPECT_NE(find_scaled_format("int4_gptq"), nullptr);
  for (const char* wrong : {"int4_gptq_g", "int4_gptq_g0", "int4_gptq_g-1", "int4_gptq_g12x", "fp8_block_g64", "int5",
                            "", "int4_gptq_g99999999999999999999"})
    EXPECT_EQ(find_scaled_format(wrong), nullptr) << wrong;
  std::string error = sentence([] { scaled_format("int5"); });
  for (const char* part : {"int5", "fp8_block", "int4_awq_g{n}", "q4_k"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
}

TEST(ScaledFormats, SizesThatDoNotFitAreRefused) {
  EXPECT_NE(sentence([] { scaled_format("int4_awq_g128").tensors(64, 100); }), "");
  EXPECT_NE(sentence([] { scaled_format("int4_awq_g32").tensors(63, 64); }), "");
  EXPECT_NE(sentence([] { scaled_format("int4_packed").tensors(64, 63); }), "");
  EXPECT_NE(sentence([] { scaled_format("nvfp4").tensors(64, 40); }), "");
  EXPECT_NE(sentence([] { scaled_format("ternary").tensors(66, 40); }), "");
  EXPECT_EQ(sentence([] { scaled_format("fp8_block").tensors(1, 1); }), "");
}

TEST(ScaledFormats, CostsCountTheirBytes) {
  // A byte for each code, and 4 for the scale of each block.
  EXPECT_EQ(matrix_bytes("fp8_block", 256, 130, DType::kBF16), 256 * 130 + 4 * 2 * 2);
  // Half a byte, half a byte of zero point and four of scale for 64 elements.
  EXPECT_EQ(matrix_bytes("int4_gptq_g64", 8, 128, DType::kBF16), 8 * (64 + 2 * 4.5));
  Linear::Init linear{.in_features = 128, .out_features = 64};
  double plain = product_cost(linear, "", Workload::tokens(1)).read_bytes;
  EXPECT_EQ(plain - product_cost(linear, "int8_channel", Workload::tokens(1)).read_bytes, 128 * 64 - 64 * 4);
}

TEST(ScaledFormats, StackedMatricesHaveFormatsOfOneOperator) {
  Linear::Init linear{.in_features = 128, .out_features = 64, .output_sizes = {32, 32}};
  EXPECT_GT(product_cost(linear, "int4_awq_g32+int4_awq_g64", Workload::tokens(1)).read_bytes, 0);
  EXPECT_NE(sentence([&] { product_cost(linear, "int4_awq_g32+int8_channel", Workload::tokens(1)); }), "");
}

}  // namespace
}  // namespace fk
