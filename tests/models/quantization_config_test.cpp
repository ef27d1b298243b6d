// quantization_config: which matrix has which format, and every setting that is not supported is refused by name.
#include "models/quantization_config.h"

#include <gtest/gtest.h>

#include "core/json.h"
#include "models/config.h"
#include "tests/models/error_text.h"
#include "tests/models/init_of.h"
#include "tests/models/published_configs.h"

namespace fk {
namespace {

Json config_with(const char* base, const std::string& quantization) {
  Json json = parse_json(base, "the test's config");
  json["quantization_config"] = parse_json(quantization, "the test's quantization");
  return json;
}
std::string formats(const std::string& quantization) {
  return decoder_of(config_from_json(config_with(kLlama32Config, quantization), "config.json")).weight_format;
}
std::string formats_refusal(const std::string& quantization) {
  return error_of([&] { formats(quantization); });
}
std::string compressed(const std::string& weights, const std::string& format, const std::string& more = "") {
  return R"({"quant_method":"compressed-tensors","format":")" + format +
         R"(","ignore":["lm_head"],"config_groups":{"group_0":{"targets":["Linear"],"weights":)" + weights + "}}" +
         more + "}";
}

constexpr const char* kPlain = ";embed_tokens=none;lm_head=none";

TEST(QuantizationConfig, GivesEveryMatrixItsFormat) {
  EXPECT_EQ(formats(R"({"quant_method":"fp8","weight_block_size":[128,128],"modules_to_not_convert":["lm_head"]})"),
            std::string("fp8_block") + kPlain);
  // Without a list the head stays as it is, as in transformers; the embedding always does.
  EXPECT_EQ(formats(R"({"quant_method":"fp8"})"), std::string("fp8_tensor") + kPlain);
  EXPECT_EQ(formats(R"({"quant_method":"gptq","bits":4,"group_size":128,"sym":true})"),
            std::string("int4_gptq_g128") + kPlain);
  EXPECT_EQ(formats(R"({"quant_method":"gptq","bits":4,"group_size":-1,"lm_head":true})"),
            "int4_gptq;embed_tokens=none");
  EXPECT_EQ(formats(R"({"quant_method":"awq","bits":4,"group_size":64,"version":"GEMM"})"),
            std::string("int4_awq_g64") + kPlain);
  EXPECT_EQ(formats(compressed(R"({"num_bits":4,"type":"int","strategy":"channel"})", "pack-quantized")),
            std::string("int4_packed") + kPlain);
}

TEST(QuantizationConfig, ListsOfModulesAreObeyed) {
  auto ignoring = [](const std::string& list) {
    return formats(R"({"quant_method":"fp8","modules_to_not_convert":)" + list + "}");
  };
  EXPECT_EQ(ignoring(R"(["lm_head","model.layers.1"])"),
            "fp8_tensor;down_proj=none@1;embed_tokens=none;gate_proj=none@1;k_proj=none@1;lm_head=none;o_proj=none@1;"
            "q_proj=none@1;up_proj=none@1;v_proj=none@1");
  EXPECT_EQ(ignoring(R"(["down_proj"])"), "fp8_tensor;down_proj=none@0-15;embed_tokens=none");
  EXPECT_EQ(ignoring(R"(["model.layers.[2-4].*down_proj"])"), "fp8_tensor;down_proj=none@2-4;embed_tokens=none");
  EXPECT_EQ(ignoring(R"(["proj"])"), "fp8_tensor;embed_tokens=none") << "parts of a name match nothing";
  EXPECT_EQ(formats(R"({"quant_method":"fp8","ignored_layers":["lm_head"]})"), std::string("fp8_tensor") + kPlain);
  EXPECT_EQ(formats(R"({"quant_method":"gptq","bits":4,"group_size":64,"dynamic":{"-:.*\\.down_proj":{}}})"),
            "int4_gptq_g64;down_proj=none@0-15;embed_tokens=none;lm_head=none");
  EXPECT_EQ(formats(R"({"quant_method":"gptq","bits":4,"dynamic":{}})"), std::string("int4_gptq") + kPlain);
  std::string two = R"({"quant_method":"compressed-tensors","format":"pack-quantized","ignore":["lm_head"],
      "config_groups":{"a":{"targets":["Linear"],"weights":{"num_bits":4,"strategy":"group","group_size":128}},
      "b":{"targets":["re:.*down_proj"],"weights":{"num_bits":4,"strategy":"group","group_size":32}}}})";
  EXPECT_EQ(formats(two), "int4_packed_g128;down_proj=int4_packed_g32@0-15;embed_tokens=none;lm_head=none");
}

TEST(QuantizationConfig, RefusesByNameWhatItDoesNotKnow) {
  expect_sentence(formats_refusal(R"({"quant_method":"hqq"})"), {"'hqq'", "awq", "compressed-tensors", "fp8", "gptq"});
  expect_sentence(formats_refusal(R"({"bits":4})"), {"quant_method"});
  expect_sentence(formats_refusal(R"({"quant_method":"fp8","weight_block_size":[64,64]})"),
                  {"weight_block_size", "[64,64]"});
  expect_sentence(formats_refusal(R"({"quant_method":"fp8","activation_scheme":"odd"})"),
                  {"activation_scheme", "'odd'"});
  expect_sentence(formats_refusal(R"({"quant_method":"fp8","modules_to_not_convert":"lm_head"})"),
                  {"modules_to_not_convert"});
  expect_sentence(formats_refusal(R"({"quant_method":"fp8","modules_to_not_convert":["a(b"]})"), {"'a(b'"});
  expect_sentence(formats_refusal(R"({"quant_method":"gptq","bits":3})"), {"bits", "'3'", "4"});
  expect_sentence(formats_refusal(R"({"quant_method":"gptq","bits":4,"group_size":0})"), {"group_size"});
  expect_sentence(formats_refusal(R"({"quant_method":"gptq","bits":4,"checkpoint_format":"marlin"})"),
                  {"'marlin'", "gptq_v2"});
  expect_sentence(formats_refusal(R"({"quant_method":"gptq","bits":4,"dynamic":{"+:.*down.*":{"bits":8}}})"),
                  {"dynamic", "'+:.*down.*'", "-:"});
  expect_sentence(formats_refusal(R"({"quant_method":"gptq","bits":4,"dynamic":{"-:a(":{}}})"), {"dynamic", "a("});
  expect_sentence(formats_refusal(R"({"quant_method":"gptq","bits":4,"dynamic":[1]})"), {"dynamic", "object"});
  expect_sentence(formats_refusal(R"({"quant_method":"fp8","fmt":"e5m2"})"), {"fmt", "'e5m2'", "e4m3"});
  expect_sentence(formats_refusal(R"({"quant_method":"awq","bits":4,"version":"gemv"})"), {"'gemv'", "gemm"});
  expect_sentence(formats_refusal(R"({"quant_method":"compressed-tensors"})"), {"config_groups"});
  expect_sentence(
      formats_refusal(compressed(R"({"num_bits":3,"type":"int","strategy":"group","group_size":8})", "pack-quantized")),
      {"3 bits", "pack-quantized"});
  expect_sentence(
      formats_refusal(compressed(R"({"num_bits":4,"type":"int","strategy":"group","group_size":8,"actorder":"group"})",
                                 "pack-quantized")),
      {"actorder"});
  expect_sentence(formats_refusal(compressed(R"({"num_bits":8,"type":"int","strategy":"channel","symmetric":false})",
                                             "int-quantized")),
                  {"asymmetric"});
  expect_sentence(formats_refusal(compressed(R"({"num_bits":8,"strategy":"channel"})", "int-quantized",
                                             R"(,"sparsity_config":{"format":"sparse-24-bitmask"})")),
                  {"sparsity_config"});
  expect_sentence(formats_refusal("7"), {"quantization_config"});
}

// Their matrices are dequantised when they are loaded; what cannot be read is refused all the same.
TEST(QuantizationConfig, FamiliesThatStackMatricesHaveElements) {
  auto format = [](const char* base, const char* quantization) {
    return decoder_of(config_from_json(config_with(base, quantization), "config.json")).weight_format;
  };
  EXPECT_EQ(format(kPhi4Config, R"({"quant_method":"fp8"})"), "");
  EXPECT_NE(format(kQwen3Config, R"({"quant_method":"fp8"})"), "");
  expect_sentence(error_of([&] { format(kPhi4Config, R"({"quant_method":"fp8","weight_block_size":[64,64]})"); }),
                  {"weight_block_size"});
  expect_sentence(error_of([&] { format(kPhi4Config, R"({"quant_method":"hqq"})"); }), {"'hqq'"});
}

TEST(QuantizationOfName, IsAMethodOfVllmOrAFormat) {
  const ModelConfig config = config_from_json(parse_json(kLlama32Config, "the test's config"), "config.json");
  auto of = [&](std::string_view name) { return quantization_of_name(name, *config.family); };
  EXPECT_EQ(of("fp8"), std::string("fp8_tensor") + kPlain);
  EXPECT_EQ(of("int4_gptq_g64"), std::string("int4_gptq_g64") + kPlain);
  EXPECT_EQ(of("q8_0"), "q8_0") << "files of llama.cpp quantise embedding and head too";
  for (std::string_view name : quantization_names()) EXPECT_TRUE(of(name).ends_with(kPlain)) << name;
  expect_sentence(error_of([&] { of("fp9"); }), {"'fp9'", "awq", "q4_k", "int4_gptq_g{n}"});
  const ModelConfig stacked = config_from_json(parse_json(kPhi4Config, "the test's config"), "config.json");
  expect_sentence(error_of([&] { quantization_of_name("fp8", *stacked.family); }),
                  {"--quantization", "Phi3ForCausalLM"});
}

}  // namespace
}  // namespace fk
