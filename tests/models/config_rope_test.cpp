// The rotary part of config.json against transformers: the same frequencies, or a refusal, and never other frequencies.
#include "models/config_rope.h"

#include <gtest/gtest.h>

#include "core/json.h"
#include "models/config.h"
#include "ops/l1/rotary_emb.h"
#include "ops/l4/gemma3_for_causal_lm.h"
#include "tests/models/error_text.h"
#include "tests/models/init_of.h"
#include "tests/models/published_configs.h"

namespace fk {
namespace {

bool is_flat_gemma(const Json& config) {
  if (config["model_type"] != "gemma3_text" || !config.contains("rope_parameters")) return false;
  const Json& rope = config["rope_parameters"];
  return !rope.empty() && !rope.contains("full_attention") && !rope.contains("sliding_attention");
}

// What this program computes.
bool is_supported(const Json& built) {
  if (built.is_null()) return false;
  for (const auto& [layers, rope] : built.items()) {
    std::string type = rope["rope_type"];
    bool known = type == "default" || (layers == "full_attention" && (type == "linear" || type == "llama3")) ||
                 (type == "yarn" && built.size() == 1);
    if (!known || rope.value("partial_rotary_factor", 1.0) != 1) return false;
  }
  return true;
}

void expect_same(const ModelConfig& read, const Json& built, const std::string& text) {
  const Json& full = built["full_attention"];
  DecoderModelInit config = decoder_of(read);
  EXPECT_EQ(config.rope_theta, full["rope_theta"].get<double>()) << text;
  EXPECT_EQ(config.rope_scaling.type, full["rope_type"].get<std::string>()) << text;
  RotaryEmbedding::Init init{.head_size = config.head_dim,
                             .rotary_dim = config.head_dim,
                             .base = config.rope_theta,
                             .rope_scaling = config.rope_scaling};
  std::vector<double> frequencies = RotaryEmbedding::inverse_frequencies(init);
  ASSERT_EQ(frequencies.size(), full["inv_freq"].size()) << text;
  for (size_t i = 0; i < frequencies.size(); ++i)
    EXPECT_NEAR(frequencies[i], full["inv_freq"][i].get<double>(), 1e-6 * frequencies[i]) << text;
  if (!built.contains("sliding_attention")) return;
  EXPECT_EQ(init_of<Gemma3ForCausalLM>(read).rope_local_base_freq,
            built["sliding_attention"]["rope_theta"].get<double>())
      << text;
}

TEST(ConfigRope, RotatesAsTransformersDoesOrRefuses) {
  Json data = parse_json_file(FK_SOURCE_DIR "/tests/models/data/rope_configs.json");
  int same = 0, refused = 0;
  for (const Json& c : data["cases"]) {
    std::string text = c["config"].dump();
    // transformers silently ignores it, which cannot be intended.
    if (is_supported(c["built"]) && !is_flat_gemma(c["config"])) {
      expect_same(config_from_json(c["config"], "config.json"), c["built"], text);
      ++same;
    } else {
      EXPECT_NE(error_of([&] { config_from_json(c["config"], "config.json"); }), "(no error)") << text;
      ++refused;
    }
  }
  EXPECT_GE(same, 78);
  EXPECT_GE(refused, 11);
}

// The figures of transformers: _compute_yarn_parameters.
TEST(ConfigRope, YarnScalesSinesAndCosines) {
  auto scaling = [](const char* added) {
    Json json = parse_json(kQwen3Config, "the test's config");
    json["rope_scaling"] = parse_json(R"({"rope_type":"yarn","factor":32.0,"original_max_position_embeddings":4096})",
                                      "the test's scaling");
    json["rope_scaling"].update(parse_json(added, "the test's addition"));
    return decoder_of(config_from_json(json, "config.json")).rope_scaling;
  };
  EXPECT_NEAR(scaling("{}").attention_factor, 1.3465735902799727, 1e-12);
  EXPECT_EQ(scaling(R"({"attention_factor":0.75})").attention_factor, 0.75);
  EXPECT_NEAR(scaling(R"({"mscale":1.0,"mscale_all_dim":0.5})").attention_factor,
              1.3465735902799727 / 1.1732867951399863, 1e-12);
  EXPECT_NEAR(scaling(R"({"mscale":2.0})").attention_factor, 1.3465735902799727, 1e-12);
  EXPECT_TRUE(scaling("{}").truncate);
  EXPECT_FALSE(scaling(R"({"truncate":false})").truncate);
  EXPECT_EQ(scaling(R"({"beta_fast":null,"beta_slow":2})").beta_slow, 2);
  expect_sentence(error_of([&] { scaling(R"({"beta_fast":1,"beta_slow":2})"); }), {"beta_fast 1", "beta_slow 2"});
}

TEST(ConfigRope, RefusalsSayWhatIsKnown) {
  Json dynamic = parse_json(kQwen3Config, "the test's config");
  dynamic["rope_parameters"] = {{"rope_theta", 1e6}, {"rope_type", "default"}};
  dynamic["rope_scaling"] = {{"type", "dynamic"}, {"factor", 4.0}};
  expect_sentence(error_of([&] { config_from_json(dynamic, "config.json"); }),
                  {"'dynamic'", "default, linear, llama3 and yarn"});
  Json flat = parse_json(kGemma3Config, "the test's config");
  flat["rope_parameters"] = {{"rope_theta", 1e6}};
  expect_sentence(error_of([&] { config_from_json(flat, "config.json"); }), {"full_attention and sliding_attention"});
  for (const Json& stray : {Json{{"rope_theta", 7}}, Json{{"chunked_attention", {{"rope_theta", 3}}}}}) {
    Json mixed = parse_json(kGemma3Config, "the test's config");
    mixed["rope_parameters"] = {{"full_attention", {{"rope_theta", 1e6}}}};
    mixed["rope_parameters"].update(stray);
    expect_sentence(error_of([&] { config_from_json(mixed, "config.json"); }),
                    {stray.begin().key().c_str(), "not supported there"});
  }
  Json other = parse_json(kQwen3Config, "the test's config");
  other["model_type"] = "llama";
  expect_sentence(error_of([&] { config_from_json(other, "config.json"); }),
                  {"Qwen3ForCausalLM", "'qwen3'", "'llama'"});
}

}  // namespace
}  // namespace fk
