// 30,000 damaged config.json texts: each is refused with an Error, or gives a configuration that holds together.
#include <gtest/gtest.h>

#include <iterator>
#include <string>

#include "core/error.h"
#include "core/json.h"
#include "models/config.h"
#include "models/generation_defaults.h"
#include "models/quantization_config.h"
#include "ops/formats/format_map.h"
#include "ops/formats/scaled_format.h"
#include "tests/fuzz/mutate.h"
#include "tests/models/published_configs.h"

namespace fk {
namespace {

void expect_sound(const ModelConfig& config) {
  auto number = [&](std::string_view name) { return std::get<int64_t>(*find_field(config.init, name)); };
  int64_t heads = number("num_attention_heads"), head_dim = number("head_dim"), hidden = number("hidden_size");
  ASSERT_EQ(heads % number("num_key_value_heads"), 0);
  ASSERT_EQ(head_dim % 2, 0);
  int64_t bytes = 0;
  int64_t widest = number("intermediate_size") + heads * head_dim;
  ASSERT_FALSE(__builtin_mul_overflow(hidden * widest * 12, number("num_hidden_layers"), &bytes));
  ASSERT_FALSE(__builtin_mul_overflow(config.facts.vocab_size * 8, hidden, &bytes));
  if (const FieldValue* sliding = find_field(config.init, "layer_is_sliding")) {
    auto flags = std::ssize(std::get<std::vector<int64_t>>(*sliding));
    ASSERT_EQ(flags, number("sliding_window") == 0 ? 0 : number("num_hidden_layers"));
  }
}

TEST(ConfigFuzz, DamagedConfigsLoadOrAreRefused) {
  Mutator mutator(20240602);
  const char* texts[] = {kLlama32Config, kMistralConfig, kQwen3Config,   kGemma3Config, kGemma3Version5Config,
                         kQwen25Config,  kOlmo2Config,   kGraniteConfig, kPhi4Config,   kGlm4Config};
  int loaded = 0, refused = 0;
  for (int i = 0; i < 30000; ++i) {
    std::string text = mutator.mutate(texts[mutator.below(std::size(texts))]);
    try {
      Json json = parse_json(text, "fuzz.json");
      expect_sound(config_from_json(json, "fuzz.json"));
      generation_defaults_from_json(json, "fuzz.json");
      ++loaded;
    } catch (const Error& e) {
      ASSERT_NE(std::string(e.what()).find("fuzz.json"), std::string::npos) << e.what();
      ++refused;
    }
  }
  EXPECT_GT(loaded, 1000);
  EXPECT_GT(refused, 10000);
}

TEST(ConfigFuzz, DamagedQuantizationConfigsGiveKnownFormatsOrAreRefused) {
  Mutator mutator(20261116);
  const char* texts[] = {
      R"({"quant_method":"fp8","weight_block_size":[128,128],"modules_to_not_convert":["lm_head","re:(.*)*x"]})",
      R"({"quant_method":"gptq","bits":4,"group_size":128,"checkpoint_format":"gptq","desc_act":false,"lm_head":true})",
      R"({"quant_method":"awq","bits":4,"group_size":64,"version":"gemm","modules_to_not_convert":["down_proj"]})",
      R"({"quant_method":"compressed-tensors","format":"pack-quantized","ignore":["lm_head"],"config_groups":{"a":
         {"targets":["Linear"],"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":32}}}})",
      R"({"quant_method":"compressed-tensors","format":"mixed-precision","ignore":["re:.*\\.gate$"],"config_groups":{"a":
         {"format":"float-quantized","targets":["re:.*q_proj"],"weights":{"num_bits":8,"type":"float","strategy":
         "block","block_structure":[128,128]}},"b":{"format":"nvfp4-pack-quantized","targets":["Linear"],"weights":
         {"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16}}}})",
      R"({"quant_method":"gptq","bits":4,"group_size":32,"dynamic":{"-:.*self_attn.*":{},"-:.*\\.gate$":{}}})"};
  int loaded = 0, refused = 0;
  for (int i = 0; i < 8000; ++i) {
    std::string text = mutator.mutate(texts[mutator.below(std::size(texts))]);
    try {
      Json json = parse_json(kLlama32Config, "fuzz.json");
      json["num_hidden_layers"] = 3;
      json["quantization_config"] = parse_json(text, "fuzz.json");
      if (FormatOf stored = read_stored_formats(JsonFields(json, "fuzz.json"))) {
        for (const char* path : {"lm_head", "model.layers.1.self_attn.q_proj", "model.layers.0.mlp.experts.7.down_proj",
                                 "model.language_model.layers.2.experts.gate_up_proj", "model.layers.0.mlp.gate"})
          ASSERT_TRUE(stored(path).empty() || find_scaled_format(stored(path)) != nullptr) << stored(path);
      }
      ModelConfig config = config_from_json(json, "fuzz.json");
      const auto& formats = std::get<std::string>(*find_field(config.init, "weight_format"));
      for (int layer = 0; layer < 3; ++layer)
        for (const char* module : {"q_proj", "down_proj"}) {
          std::string format = format_of_module(formats_of_layer(formats, layer), module);
          ASSERT_TRUE(format.empty() || find_scaled_format(format) != nullptr) << format;
        }
      ++loaded;
    } catch (const Error& e) {
      ASSERT_NE(std::string(e.what()).find("fuzz.json"), std::string::npos) << e.what();
      ++refused;
    }
  }
  EXPECT_GT(loaded, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace fk
