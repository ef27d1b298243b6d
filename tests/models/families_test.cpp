// What each family reads from config.json besides what all share, what it refuses, and how the registry lists families.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/json.h"
#include "models/checkpoint_names.h"
#include "models/config.h"
#include "models/family.h"
#include "ops/l4/glm4_for_causal_lm.h"
#include "ops/l4/granite_for_causal_lm.h"
#include "ops/l4/phi3_for_causal_lm.h"
#include "ops/l4/qwen2_for_causal_lm.h"
#include "ops/registry.h"
#include "tests/models/changed_config.h"
#include "tests/models/error_text.h"
#include "tests/models/init_of.h"
#include "tests/models/published_configs.h"

namespace fk {
namespace {

TEST(Families, AreSortedByNameAndFoundByArchitecture) {
  std::vector<const Family*> all = families();
  EXPECT_GE(all.size(), 10u);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(), [](auto* a, auto* b) { return a->name < b->name; }));
  for (const Family* family : all) {
    EXPECT_EQ(find_family(family->architecture), family);
    EXPECT_EQ(Registry::instance().at(family->op).class_name, family->architecture);
    EXPECT_EQ(Registry::instance().at(family->op).level, 4);
  }
  EXPECT_EQ(find_family("NoSuchForCausalLM"), nullptr);
}

TEST(Families, FactsAndArgumentsChangeTogether) {
  ModelConfig config = changed(kPhi4Config, "tie_word_embeddings", "true");
  EXPECT_TRUE(config.facts.tied_head);
  config.set_tied_head(false);
  config.set_dtype(DType::kF16);
  config.set_ranks(2, false);
  Phi3ForCausalLM::Init init = init_of<Phi3ForCausalLM>(config);
  EXPECT_FALSE(init.tie_word_embeddings || config.facts.tied_head || init.tp_reduce);
  EXPECT_EQ(init.dtype, DType::kF16);
  EXPECT_EQ(config.facts.dtype, DType::kF16);
  EXPECT_EQ(init.tp_size, 2);
  EXPECT_EQ(config.facts.tp_size, 2);
  config.init.clear();
  expect_sentence(error_of([&] { config.set_dtype(DType::kF32); }), {"Phi3ForCausalLM", "'dtype'"});
}

TEST(Families, CheckpointsPackWhatTheirFamilySays) {
  auto names = [](const char* text) {
    ModelConfig config = changed(text, "num_hidden_layers", "1");
    std::unique_ptr<Node> root = Registry::instance().at(config.family->op).build(config.init, {.oracle = true});
    std::vector<std::string> all;
    for (const ParamSpec& param : checkpoint_params(*root, config)) {
      if (param.part_names.empty()) all.push_back(param.name);
      all.insert(all.end(), param.part_names.begin(), param.part_names.end());
    }
    return all;
  };
  auto has = [](const std::vector<std::string>& all, std::string_view name) {
    return std::find(all.begin(), all.end(), "model.layers.0." + std::string(name)) != all.end();
  };
  std::vector<std::string> qwen = names(kQwen25Config), phi = names(kPhi4Config), glm = names(kGlm4Config);
  EXPECT_TRUE(has(qwen, "self_attn.k_proj.bias") && has(qwen, "mlp.up_proj.weight"));
  EXPECT_FALSE(has(qwen, "self_attn.o_proj.bias"));
  EXPECT_TRUE(has(phi, "self_attn.qkv_proj.weight") && has(phi, "mlp.gate_up_proj.weight"));
  EXPECT_TRUE(has(glm, "self_attn.q_proj.bias") && has(glm, "mlp.gate_up_proj.weight"));
  EXPECT_FALSE(has(glm, "self_attn.o_proj.bias"));
}

TEST(Families, Qwen2SlidesOnItsLaterLayers) {
  Json json = parse_json(kQwen25Config, "the test's config");
  json["use_sliding_window"] = true;
  json["sliding_window"] = 64;
  json["max_window_layers"] = 27;
  auto init = init_of<Qwen2ForCausalLM>(config_from_json(json, "config.json"));
  EXPECT_EQ(init.window_of(26), 0);
  EXPECT_EQ(init.window_of(27), 64);
  expect_sentence(refusal(kQwen25Config, "rope_scaling", R"({"type":"dynamic","factor":4.0})"),
                  {"'dynamic'", "llama3"});
}

TEST(Families, GraniteReadsItsFactors) {
  EXPECT_EQ(init_of<GraniteForCausalLM>(changed(kGraniteConfig, "attention_multiplier", nullptr)).attention_multiplier,
            1);
  for (const char* key : {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"})
    for (const char* value : {"0", "-1", "\"1\"", "1e30"})
      expect_sentence(refusal(kGraniteConfig, key, value), {key, "number from"});
}

TEST(Families, PhiRefusesWhatItDoesNotCompute) {
  expect_sentence(refusal(kPhi4Config, "rope_scaling", R"({"type":"longrope","short_factor":[1],"long_factor":[2]})"),
                  {"'longrope'", "default, linear, llama3 and yarn"});
  for (const char* key : {"attention_bias", "mlp_bias", "lm_head_bias"})
    expect_sentence(refusal(kPhi4Config, key, "true"), {"Phi3ForCausalLM", key});
  EXPECT_EQ(init_of<Phi3ForCausalLM>(changed(kPhi4Config, "partial_rotary_factor", "0.75")).rotary_dim, 96);
  EXPECT_EQ(init_of<Phi3ForCausalLM>(changed(kPhi4Config, "sliding_window", "2047")).sliding_window, 2047);
  // 128 * 0.1 is 12.8, of which transformers takes the whole part; 128 * 0.04 gives 5, which is odd.
  EXPECT_EQ(init_of<Phi3ForCausalLM>(changed(kPhi4Config, "partial_rotary_factor", "0.1")).rotary_dim, 12);
  for (const char* value : {"0.04", "0", "0.001"})
    expect_sentence(refusal(kPhi4Config, "partial_rotary_factor", value), {"partial_rotary_factor", "even"});
  expect_sentence(refusal(kPhi4Config, "partial_rotary_factor", "1.5"), {"partial_rotary_factor", "number from"});
}

TEST(Families, Glm4RotatesHalfOfAHeadUnlessTold) {
  EXPECT_EQ(init_of<Glm4ForCausalLM>(changed(kGlm4Config, "partial_rotary_factor", nullptr)).rotary_dim, 64);
  // What stands in rope_parameters counts more than what stands outside.
  EXPECT_EQ(init_of<Glm4ForCausalLM>(
                changed(kGlm4Config, "rope_parameters", R"({"rope_theta":1e4,"partial_rotary_factor":0.25})"))
                .rotary_dim,
            32);
  EXPECT_TRUE(init_of<Glm4ForCausalLM>(changed(kGlm4Config, "attention_bias", nullptr)).attention_bias);
}

}  // namespace
}  // namespace fk
