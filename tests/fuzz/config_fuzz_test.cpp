// 30,000 damaged config.json texts: each is refused with an Error, or gives a configuration that holds together.
#include <gtest/gtest.h>

#include <string>

#include "core/error.h"
#include "core/json.h"
#include "models/config.h"
#include "models/generation_defaults.h"
#include "tests/fuzz/mutate.h"
#include "tests/models/published_configs.h"

namespace fk {
namespace {

void expect_sound(const CausalLMConfig& c) {
  check_config(c, "a config that was accepted");
  ASSERT_EQ(c.num_attention_heads % c.num_key_value_heads, 0);
  ASSERT_EQ(c.head_dim % 2, 0);
  int64_t bytes = 0;
  int64_t widest = c.intermediate_size + c.num_attention_heads * c.head_dim;
  ASSERT_FALSE(__builtin_mul_overflow(c.hidden_size * widest * 12, c.num_hidden_layers, &bytes));
  ASSERT_FALSE(__builtin_mul_overflow(c.vocab_size * 8, c.hidden_size, &bytes));
}

TEST(ConfigFuzz, DamagedConfigsLoadOrAreRefused) {
  Mutator mutator(20240602);
  const char* texts[] = {kLlama32Config, kMistralConfig, kQwen3Config, kGemma3Config, kGemma3Version5Config};
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
