// 30,000 damaged config.json texts: each is refused with an Error, or gives a configuration that holds together.
#include <gtest/gtest.h>

#include <iterator>
#include <string>

#include "core/error.h"
#include "core/json.h"
#include "models/config.h"
#include "models/generation_defaults.h"
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

}  // namespace
}  // namespace fk
