// Weight formats: values equal to the gguf package's to the bit, rounding that is as close as a format allows, and the
// text that says which matrix has which format.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "core/error.h"
#include "core/json.h"
#include "core/rng.h"
#include "ops/formats/format_map.h"
#include "ops/formats/weight_format.h"
#include "ops/l1/gguf_linear.h"
#include "ops/materialize.h"

namespace fk {
namespace {

std::vector<std::byte> bytes_from_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

// tools/golden/formats.py writes the file.
TEST(WeightFormats, ValuesAreThoseOfTheGgufPackageToTheBit) {
  Json data = parse_json_file(FK_SOURCE_DIR "/tests/ops/data/weight_formats.json");
  ASSERT_EQ(data.size(), 5u);
  for (const auto& [name, blocks] : data.items()) {
    const WeightFormat& format = weight_format(name);
    std::vector<std::byte> bytes = bytes_from_hex(blocks["blocks"]), expected = bytes_from_hex(blocks["values"]);
    int64_t elements = format.row_elements(static_cast<int64_t>(bytes.size()));
    ASSERT_EQ(static_cast<size_t>(elements) * sizeof(float), expected.size()) << name;
    std::vector<float> values(static_cast<size_t>(elements));
    dequantise(format, bytes.data(), elements, values.data());
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), expected.size()), 0) << name;
  }
}

TEST(WeightFormats, RoundingIsAsCloseAsTheirBitsAllow) {
  // The largest of 32 normal numbers is about 2.4: an 8-bit step is 2.4 / 127, a 6-bit step 2.1 / 32, a 4-bit step with
  // a minimum 4.5 / 15 and one without 2.4 / 8; an error is step / sqrt(12) on average. Steps of 4-bit floats grow with
  // the element.
  const std::pair<const char*, double> kExpected[] = {
      {"q8_0", 0.0055}, {"q6_k", 0.019}, {"q4_k", 0.08}, {"q4_0", 0.09}, {"mxfp4", 0.12}};
  for (const auto& [name, deviation] : kExpected) {
    const WeightFormat& format = weight_format(name);
    constexpr int64_t kElements = 4096;
    Stream stream(7, name);
    std::vector<float> values(kElements), rounded(kElements);
    for (size_t i = 0; i < kElements; ++i) values[i] = static_cast<float>(stream.normal(i));
    std::vector<std::byte> blocks(static_cast<size_t>(format.row_bytes(kElements)));
    quantise(format, values.data(), kElements, blocks.data());
    dequantise(format, blocks.data(), kElements, rounded.data());
    double squares = 0;
    for (size_t i = 0; i < kElements; ++i) squares += std::pow(values[i] - rounded[i], 2);
    EXPECT_LT(std::sqrt(squares / kElements), 1.2 * deviation) << name;
  }
}

TEST(WeightFormats, ZerosAndConstantsStayWhatTheyAre) {
  for (const WeightFormat* format : weight_formats()) {
    auto elements = static_cast<size_t>(format->block_elements);
    for (float value : {0.0f, 1.0f, -1.0f}) {
      std::vector<float> values(elements, value), rounded(elements);
      std::vector<std::byte> block(static_cast<size_t>(format->block_bytes));
      quantise(*format, values.data(), format->block_elements, block.data());
      dequantise(*format, block.data(), format->block_elements, rounded.data());
      for (float r : rounded) ASSERT_NEAR(r, value, 0.002) << format->name;
    }
  }
}

TEST(FormatMap, ExceptionsAreOfModulesAndLayers) {
  std::string text = format_map({{"q_proj", 0, "q4_k"},
                                 {"v_proj", 0, "q6_k"},
                                 {"v_proj", 1, "q6_k"},
                                 {"v_proj", 2, "q4_k"},
                                 {"v_proj", 3, "q6_k"},
                                 {"k_proj", 0, "q4_k"},
                                 {"o_proj", 0, "q4_k"},
                                 {"lm_head", -1, "q6_k"},
                                 {"embed_tokens", -1, ""}});
  EXPECT_EQ(text, "q4_k;embed_tokens=none;lm_head=q6_k;v_proj=q6_k@0-1,3");
  EXPECT_EQ(format_of_module(text, "lm_head"), "q6_k");
  EXPECT_EQ(format_of_module(text, "embed_tokens"), "");
  EXPECT_EQ(format_of_modules(formats_of_layer(text, 1), {"q_proj", "k_proj", "v_proj"}), "q4_k+q4_k+q6_k");
  EXPECT_EQ(format_of_modules(formats_of_layer(text, 2), {"q_proj", "k_proj", "v_proj"}), "q4_k");
  EXPECT_EQ(formats_of_parts("q4_k+q6_k", 2), (std::vector<std::string>{"q4_k", "q6_k"}));
  EXPECT_EQ(formats_of_parts("q8_0", 2), (std::vector<std::string>{"q8_0", "q8_0"}));
  EXPECT_EQ(format_map({}), "");
  EXPECT_EQ(format_map({{"q_proj", 0, "q8_0"}}), "q8_0");
  EXPECT_THROW(format_of_modules("q4_k;v_proj=none", {"q_proj", "v_proj"}), Error);
  EXPECT_THROW(formats_of_parts("q4_k+q6_k", 3), Error);
  EXPECT_THROW(formats_of_layer("q4_k;v_proj=q6_k@x", 0), Error);
  EXPECT_THROW(weight_format("q9_9"), Error);
}

// The call with activations rounded to `bits`, and how far outputs are from exact ones, in tolerances.
double error_with_bits(int bits, uint64_t seed, double outlier) {
  GGUFLinear::Init init{.in_features = 512, .out_features = 200, .weight_format = "q8_0", .dtype = DType::kF32};
  BuildOptions oracles;
  oracles.oracle = true;
  std::unique_ptr<Node> node = Registry::instance().at("gguf_linear").build(to_fields(init), oracles);
  Workload workload = Workload::tokens(4);
  workload.dtype = DType::kF32;
  CallData data = make_call_data(*node, workload, seed);
  node->bind([&](const std::string&) { return data.params[0].view(); });
  ThreadPool pool(1);
  Arena arena;
  Context ctx{.pool = pool, .arena = arena};
  Tensor exact({4, 200}, DType::kF32), rounded({4, 200}, DType::kF32);
  auto* x = data.given[0]->ptr<float>();
  if (outlier != 0) x[100] = x[700] = static_cast<float>(outlier);
  node->call(ctx, std::vector<OptView>{data.given[0]->view(), exact.view()});
  Tolerance tolerance = GGUFLinear::tolerance_on(init, DType::kF32, std::vector<OptView>{data.given[0]->view()});
  double levels = std::pow(2, bits - 1) - 1;
  for (float* group = x; group < x + 4 * 512; group += 32) {
    float largest = 0;
    for (int i = 0; i < 32; ++i) largest = std::max(largest, std::abs(group[i]));
    double step = largest / levels;
    for (int i = 0; i < 32; ++i) group[i] = static_cast<float>(step * std::round(group[i] / step));
  }
  node->call(ctx, std::vector<OptView>{data.given[0]->view(), rounded.view()});
  double scale = 0, worst = 0;
  for (int i = 0; i < 800; ++i) scale = std::max<double>(scale, std::abs(exact.ptr<float>()[i]));
  for (int i = 0; i < 800; ++i) {
    double ref = exact.ptr<float>()[i];
    worst = std::max(worst, std::abs(rounded.ptr<float>()[i] - ref) /
                                (tolerance.relative * std::abs(ref) + tolerance.of_scale * scale));
  }
  return worst;
}

TEST(GGUFLinearTolerance, SlowAllowsActivationsOfEightBitsAndNotOfSix) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (double outlier : {0.0, 30.0}) {
      EXPECT_LT(error_with_bits(8, seed, outlier), 1) << seed;
      EXPECT_GT(error_with_bits(6, seed, outlier), 1) << seed;
    }
  }
}

}  // namespace
}  // namespace fk
