// config.json: published files give the catalog's models, both spellings mean the same, and invalid files are refused.
#include "models/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "core/json.h"
#include "models/catalog.h"
#include "models/family.h"
#include "ops/l4/gemma3_for_causal_lm.h"
#include "ops/l4/llama_for_causal_lm.h"
#include "ops/l4/qwen3_for_causal_lm.h"
#include "ops/registry.h"
#include "tests/models/error_text.h"
#include "tests/models/init_of.h"
#include "tests/models/published_configs.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

ModelConfig read(const Json& json) { return config_from_json(json, "config.json"); }
Json parsed(const char* text) { return parse_json(text, "the test's config"); }

Json with(const char* base, const std::string& key, const char* value) {
  Json json = parsed(base);
  json[key] = parsed(value);
  return json;
}
Json without(const char* base, const std::string& key) {
  Json json = parsed(base);
  json.erase(key);
  return json;
}
std::string json_refusal(const Json& json) {
  return error_of([&] { read(json); });
}

TEST(Config, ReadsThePublishedFilesOfTheCatalogsModels) {
  EXPECT_EQ(read(parsed(kLlama32Config)), find_catalog("llama-3.2-1b")->config);
  EXPECT_EQ(read(parsed(kMistralConfig)), find_catalog("mistral-7b")->config);
  EXPECT_EQ(read(parsed(kQwen3Config)), find_catalog("qwen3-0.6b")->config);
  EXPECT_EQ(read(parsed(kGemma3Config)), find_catalog("gemma3-1b")->config);
  EXPECT_EQ(read(parsed(kQwen25Config)), find_catalog("qwen2.5-7b")->config);
  EXPECT_EQ(read(parsed(kOlmo2Config)), find_catalog("olmo2-1b")->config);
  EXPECT_EQ(read(parsed(kGraniteConfig)), find_catalog("granite-3.1-2b")->config);
  EXPECT_EQ(read(parsed(kPhi4Config)), find_catalog("phi-4")->config);
  EXPECT_EQ(read(parsed(kGlm4Config)), find_catalog("glm4-9b")->config);
  EXPECT_EQ(read(parsed(kGemma3Version5Config)), find_catalog("tiny-gemma3-linear")->config);
}

// Written by transformers 5 itself, for every test-sized model there is golden data of.
TEST(Config, ReadsTheConfigsOfTheGoldenData) {
  int compared = 0;
  for (const auto& file : std::filesystem::directory_iterator(FK_SOURCE_DIR "/tests/golden/data")) {
    const CatalogEntry* entry = find_catalog(file.path().stem().string());
    if (entry == nullptr) continue;
    ModelConfig expected = entry->config;
    expected.set_dtype(DType::kF32);
    EXPECT_EQ(read(parse_json_file(file.path()).at("config")), expected) << file.path();
    ++compared;
  }
  EXPECT_GE(compared, 28);
}

TEST(Config, ReadsBothSpellingsOfTheRotaryEmbedding) {
  ModelConfig expected = read(parsed(kLlama32Config));
  Json json = parsed(kLlama32Config);
  json["rope_parameters"] = json["rope_scaling"];
  json["rope_parameters"]["rope_theta"] = 500000.0;
  json.erase("rope_scaling");
  json.erase("rope_theta");
  EXPECT_EQ(read(json), expected);
  // Files for both versions hold both; the newer one wins where they differ.
  json["rope_theta"] = 123.0;
  EXPECT_EQ(read(json), expected);
  Json old_type = parsed(kLlama32Config);
  old_type["rope_scaling"].erase("rope_type");
  old_type["rope_scaling"]["type"] = "llama3";
  EXPECT_EQ(read(old_type), expected);

  DecoderModelInit linear = decoder_of(read(with(kMistralConfig, "rope_scaling", R"({"type":"linear","factor":4})")));
  EXPECT_EQ(linear.rope_scaling.type, "linear");
  EXPECT_EQ(linear.rope_scaling.factor, 4);
  EXPECT_EQ(read(with(kMistralConfig, "rope_scaling", R"({"rope_type":"default"})")), read(parsed(kMistralConfig)));

  Json gemma = parsed(kGemma3Config);
  gemma["rope_scaling"] = parsed(R"({"rope_type":"linear","factor":8.0})");
  Json gemma5 = parsed(kGemma3Config);
  gemma5["rope_parameters"] = parsed(R"({"full_attention":{"rope_type":"linear","factor":8.0,"rope_theta":1000000.0},
                                         "sliding_attention":{"rope_type":"default","rope_theta":10000.0}})");
  gemma5.erase("rope_theta");
  gemma5.erase("rope_local_base_freq");
  EXPECT_EQ(read(gemma5), read(gemma));
  gemma5["rope_parameters"]["sliding_attention"]["rope_theta"] = 77.0;
  EXPECT_EQ(init_of<Gemma3ForCausalLM>(read(gemma5)).rope_local_base_freq, 77);
}

TEST(Config, FillsInWhatTransformersLeavesOut) {
  EXPECT_EQ(decoder_of(read(without(kLlama32Config, "head_dim"))).head_dim, 64);
  EXPECT_EQ(decoder_of(read(with(kLlama32Config, "head_dim", "null"))).head_dim, 64);
  EXPECT_EQ(decoder_of(read(without(kLlama32Config, "num_key_value_heads"))).num_key_value_heads, 32);
  EXPECT_EQ(decoder_of(read(without(kLlama32Config, "rms_norm_eps"))).rms_norm_eps, 1e-6);
  EXPECT_EQ(decoder_of(read(without(kLlama32Config, "rope_theta"))).rope_theta, 10000);
  EXPECT_EQ(decoder_of(read(without(kLlama32Config, "max_position_embeddings"))).max_position_embeddings, 2048);
  EXPECT_FALSE(decoder_of(read(without(kLlama32Config, "tie_word_embeddings"))).tie_word_embeddings);
  EXPECT_TRUE(decoder_of(read(without(kGemma3Config, "tie_word_embeddings"))).tie_word_embeddings);
  EXPECT_EQ(decoder_of(read(without(kGemma3Config, "rope_theta"))).rope_theta, 1000000);
  EXPECT_EQ(init_of<Gemma3ForCausalLM>(read(without(kGemma3Config, "query_pre_attn_scalar"))).query_pre_attn_scalar,
            256);
  EXPECT_EQ(read(without(kGemma3Config, "sliding_window_pattern")), read(parsed(kGemma3Config)));
}

TEST(Config, ReadsTheDTypeUnderBothNames) {
  EXPECT_EQ(read(with(kLlama32Config, "torch_dtype", "\"float16\"")).facts.dtype, DType::kF16);
  EXPECT_EQ(read(with(kLlama32Config, "dtype", "\"float32\"")).facts.dtype, DType::kF32);
  EXPECT_EQ(read(without(kLlama32Config, "torch_dtype")).facts.dtype, DType::kF32);
  expect_sentence(json_refusal(with(kLlama32Config, "torch_dtype", "\"int8\"")), {"'int8'", "bfloat16"});
  expect_sentence(json_refusal(with(kLlama32Config, "torch_dtype", "7")), {"torch_dtype", "string"});
}

TEST(Config, FindsTheLayersThatSlide) {
  auto sliding = [](const Json& json) {
    ModelConfig config = read(json);
    std::unique_ptr<Node> root = Registry::instance().at(config.family->op).build(config.init, {.oracle = true});
    int64_t window = 0;
    std::ptrdiff_t count = 0;
    walk(*root, [&](const Node& node, int) {
      if (node.info().name != "attention") return;
      auto own = std::get<int64_t>(*find_field(node.init(), "sliding_window"));
      window = std::max(window, own);
      count += own > 0;
    });
    return std::pair(window, count);
  };
  using Found = std::pair<int64_t, std::ptrdiff_t>;
  EXPECT_EQ(sliding(parsed(kMistralConfig)), Found(0, 0));
  EXPECT_EQ(sliding(with(kMistralConfig, "sliding_window", "4096")), Found(4096, 32));
  EXPECT_EQ(sliding(without(kMistralConfig, "sliding_window")), Found(4096, 32));   // the default of its class
  EXPECT_EQ(sliding(with(kLlama32Config, "sliding_window", "4096")), Found(0, 0));  // llama has no such field
  EXPECT_EQ(sliding(with(kQwen3Config, "sliding_window", "4096")), Found(0, 0));
  Json qwen = with(kQwen3Config, "sliding_window", "100");
  qwen["use_sliding_window"] = true;
  EXPECT_EQ(sliding(qwen), Found(0, 0));  // from layer 28 of 28 on
  qwen["max_window_layers"] = 20;
  EXPECT_EQ(sliding(qwen), Found(100, 8));
  EXPECT_EQ(init_of<Qwen3ForCausalLM>(read(qwen)).layer_is_sliding[19], 0);
  EXPECT_EQ(init_of<Qwen3ForCausalLM>(read(qwen)).layer_is_sliding[20], 1);
  qwen["layer_types"] = Json::array();
  for (int i = 0; i < 28; ++i) qwen["layer_types"].push_back(i == 3 ? "sliding_attention" : "full_attention");
  EXPECT_EQ(sliding(qwen), Found(100, 1));
  EXPECT_EQ(sliding(parsed(kGemma3Config)), Found(512, 22));  // 26 layers less 6, 12, 18 and 24
  EXPECT_EQ(init_of<Gemma3ForCausalLM>(read(parsed(kGemma3Config))).layer_is_sliding[5], 0);
  EXPECT_EQ(sliding(with(kGemma3Config, "sliding_window_pattern", "2")), Found(512, 13));
  EXPECT_EQ(sliding(with(kGemma3Config, "sliding_window_pattern", "1")), Found(0, 0));

  expect_sentence(json_refusal(with(kGemma3Config, "sliding_window", "null")), {"sliding_window"});
  expect_sentence(json_refusal(with(kGemma3Config, "layer_types", "[\"full_attention\"]")),
                  {"layer_types", "26 layers"});
  Json odd = parsed(kGemma3Version5Config);
  odd["layer_types"][2] = "chunked_attention";
  expect_sentence(json_refusal(odd), {"chunked_attention", "sliding_attention"});
  odd["layer_types"][2] = 5;
  expect_sentence(json_refusal(odd), {"layer_types", "'5'"});
  Json mixed = with(kMistralConfig, "sliding_window", "64");
  mixed["layer_types"] = Json::array();
  for (int i = 0; i < 32; ++i) mixed["layer_types"].push_back(i % 2 ? "sliding_attention" : "full_attention");
  expect_sentence(json_refusal(mixed), {"MistralForCausalLM", "layer_types"});
}

TEST(Config, ListsTheKnownArchitecturesForAnUnknownOne) {
  for (const char* value : {"[\"GPT2LMHeadModel\"]", "[]", "null", "[1]", "\"LlamaForCausalLM\"", "{}", "[\"\"]"}) {
    std::string sentence = json_refusal(with(kLlama32Config, "architectures", value));
    for (const Family* family : families()) expect_sentence(sentence, {std::string(family->architecture).c_str()});
  }
  expect_sentence(json_refusal(with(kLlama32Config, "architectures", "[\"GPT2LMHeadModel\"]")), {"'GPT2LMHeadModel'"});
  expect_sentence(json_refusal(with(kGemma3Config, "architectures", "[\"Gemma3ForConditionalGeneration\"]")),
                  {"vision", "Gemma3ForCausalLM"});
}

TEST(Config, RefusesMissingFields) {
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"})
    expect_sentence(json_refusal(without(kLlama32Config, key)), {"config.json", key});
}

TEST(Config, RefusesDimensionsThatAreNotSensible) {
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                          "num_key_value_heads", "head_dim", "max_position_embeddings"}) {
    for (const char* value : {"0", "-1", "1.5", "\"8\"", "true", "[]", "{}", "9223372036854775807", "4294967296",
                              "18446744073709551615", "1e30", "-9223372036854775808"}) {
      expect_sentence(json_refusal(with(kLlama32Config, key, value)), {"config.json", key, "whole number"});
    }
  }
  expect_sentence(json_refusal(with(kLlama32Config, "num_key_value_heads", "5")), {"num_attention_heads 32", "5"});
  expect_sentence(json_refusal(with(kLlama32Config, "head_dim", "63")), {"head_dim", "even", "63"});
  Json indivisible = without(kLlama32Config, "head_dim");
  indivisible["hidden_size"] = 2050;
  expect_sentence(json_refusal(indivisible), {"head_dim", "2050", "32"});
}

TEST(Config, RefusesNumbersThatAreNotSensible) {
  for (const char* key : {"rms_norm_eps", "rope_theta"})
    for (const char* value : {"0", "-1", "\"1\"", "1e300", "true", "[1]"})
      expect_sentence(json_refusal(with(kLlama32Config, key, value)), {key, "number from"});
  for (const char* value : {"0", "-5", "1e300"}) {
    expect_sentence(json_refusal(with(kGemma3Config, "query_pre_attn_scalar", value)), {"query_pre_attn_scalar"});
    expect_sentence(json_refusal(with(kGemma3Config, "rope_local_base_freq", value)), {"rope_local_base_freq"});
    expect_sentence(json_refusal(with(kMistralConfig, "sliding_window", value)), {"sliding_window"});
  }
  for (const char* key : {"tie_word_embeddings", "attention_bias", "mlp_bias"})
    expect_sentence(json_refusal(with(kLlama32Config, key, "1")), {key, "true or false"});
}

TEST(Config, RefusesRotaryEmbeddingsItCannotCompute) {
  for (const char* type : {"dynamic", "longrope", "su", ""}) {
    std::string value = std::string(R"({"factor":2.0,"rope_type":")") + type + "\"}";
    expect_sentence(json_refusal(with(kQwen3Config, "rope_scaling", value.c_str())), {"'", type, "linear", "llama3"});
    expect_sentence(json_refusal(with(kQwen3Config, "rope_parameters", value.c_str())),
                    {"'", type, "linear", "llama3"});
  }
  expect_sentence(json_refusal(with(kQwen3Config, "rope_scaling", R"({"type":"linear"})")), {"rope_scaling", "factor"});
  expect_sentence(json_refusal(with(kQwen3Config, "rope_scaling", R"({"type":"linear","factor":0})")), {"factor"});
  expect_sentence(json_refusal(with(kQwen3Config, "rope_scaling", "[]")), {"rope_scaling", "object"});
  expect_sentence(json_refusal(with(kQwen3Config, "rope_scaling", R"({"type":3})")), {"type", "string"});
  for (const char* key : {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    Json json = parsed(kLlama32Config);
    json["rope_scaling"].erase(key);
    // The context stands in for the last.
    if (std::string_view(key) != "original_max_position_embeddings")
      expect_sentence(json_refusal(json), {"rope_scaling", key});
    json["rope_scaling"][key] = -1;
    expect_sentence(json_refusal(json), {"rope_scaling", key});
  }
  Json equal = parsed(kLlama32Config);
  equal["rope_scaling"]["high_freq_factor"] = 0.5;
  expect_sentence(json_refusal(equal), {"high_freq_factor 0.5", "low_freq_factor"});
  expect_sentence(json_refusal(with(kLlama32Config, "partial_rotary_factor", "0.5")), {"partial_rotary_factor"});
  expect_sentence(json_refusal(with(kQwen3Config, "rope_parameters", R"({"full_attention":{"rope_theta":1e6}})")),
                  {"Qwen3ForCausalLM", "rope_parameters"});
  expect_sentence(json_refusal(with(kGemma3Config, "rope_parameters",
                                    R"({"full_attention":{}, "sliding_attention":{"rope_type":"linear","factor":2}})")),
                  {"linear", "sliding"});
}

TEST(Config, RefusesWhatItsArithmeticDoesNotDo) {
  expect_sentence(json_refusal(with(kLlama32Config, "hidden_act", "\"gelu\"")), {"'gelu'", "silu"});
  expect_sentence(json_refusal(with(kGemma3Config, "hidden_activation", "\"silu\"")), {"'silu'", "gelu_pytorch_tanh"});
  expect_sentence(json_refusal(with(kGemma3Config, "final_logit_softcapping", "30.0")), {"final_logit_softcapping"});
  expect_sentence(json_refusal(with(kGemma3Config, "attn_logit_softcapping", "50.0")), {"attn_logit_softcapping"});
  expect_sentence(json_refusal(with(kGemma3Config, "use_bidirectional_attention", "true")),
                  {"use_bidirectional_attention"});
  for (const char* config : {kLlama32Config, kQwen3Config, kGemma3Config})
    expect_sentence(json_refusal(with(config, "is_causal", "false")), {"is_causal must be true"});
  EXPECT_EQ(json_refusal(with(kLlama32Config, "is_causal", "true")), "(no error)");
  expect_sentence(json_refusal(with(kLlama32Config, "quantization_config", R"({"quant_method":"hqq"})")),
                  {"'hqq'", "fp8"});
  expect_sentence(json_refusal(with(kMistralConfig, "attention_bias", "true")), {"attention_bias"});
  expect_sentence(json_refusal(with(kQwen3Config, "mlp_bias", "true")), {"mlp_bias"});
  EXPECT_TRUE(init_of<LlamaForCausalLM>(read(with(kLlama32Config, "attention_bias", "true"))).attention_bias);
  EXPECT_TRUE(init_of<LlamaForCausalLM>(read(with(kLlama32Config, "mlp_bias", "true"))).mlp_bias);
}

TEST(Config, RefusesFilesThatAreNoObjects) {
  for (const char* text : {"[]", "1", "null", "\"x\""})
    expect_sentence(json_refusal(parsed(text)), {"config.json", "object"});
  TempDirectory dir;
  expect_sentence(error_of([&] { read_config(dir.path()); }), {"config.json"});
  dir.write("config.json", "{\"architectures\":");
  expect_sentence(error_of([&] { read_config(dir.path()); }), {"config.json", "JSON"});
  dir.write("config.json", std::string(1 << 20, '['));
  expect_sentence(error_of([&] { read_config(dir.path()); }), {"config.json", "nested"});
  dir.write("config.json", kLlama32Config);
  EXPECT_EQ(read_config(dir.path()), find_catalog("llama-3.2-1b")->config);
}

}  // namespace
}  // namespace fk
