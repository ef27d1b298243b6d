// Families with latent attention: what they read and refuse, and what their checkpoints call its parts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/json.h"
#include "models/checkpoint_names.h"
#include "models/config.h"
#include "models/family.h"
#include "ops/l4/deepseek_v32_for_causal_lm.h"
#include "ops/l4/deepseek_v3_for_causal_lm.h"
#include "ops/l4/glm_moe_dsa_for_causal_lm.h"
#include "ops/registry.h"
#include "tests/models/error_text.h"
#include "tests/models/init_of.h"

namespace fk {
namespace {

// As published, with two layers and small sizes.
constexpr const char* kDeepseekV3 = R"({"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3",
  "attention_bias": false, "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 64,
  "intermediate_size": 96, "kv_lora_rank": 32, "max_position_embeddings": 163840, "moe_intermediate_size": 24,
  "moe_layer_freq": 1, "n_group": 2, "n_routed_experts": 8, "n_shared_experts": 1, "norm_topk_prob": true,
  "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 4,
  "num_nextn_predict_layers": 1, "q_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
  "rms_norm_eps": 1e-06, "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0,
  "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"}, "rope_theta": 10000,
  "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": false, "topk_group": 1,
  "topk_method": "noaux_tc", "torch_dtype": "bfloat16", "v_head_dim": 12, "vocab_size": 129280})";

ModelConfig read_changed(const char* text, const std::string& key, const Json& value) {
  Json json = parse_json(text, "a test");
  json[key] = value;
  return config_from_json(json, "config.json");
}
std::string refused(const char* text, const std::string& key, const Json& value) {
  return error_of([&] { read_changed(text, key, value); });
}

Json sparse(const char* architecture, const char* model_type) {
  Json json = parse_json(kDeepseekV3, "a test");
  json["architectures"] = {architecture};
  json["model_type"] = model_type;
  json.update({{"index_n_heads", 16}, {"index_head_dim", 16}, {"index_topk", 8}});
  return json;
}

std::vector<std::string> names_of(const ModelConfig& config) {
  std::unique_ptr<Node> root = Registry::instance().at(config.family->op).build(config.init, {});
  std::vector<std::string> names;
  for (const ParamSpec& p : checkpoint_params(*root, config)) {
    if (p.part_names.empty()) names.push_back(p.name);
    names.insert(names.end(), p.part_names.begin(), p.part_names.end());
  }
  return names;
}
int64_t count_of(const std::vector<std::string>& names, const std::string& name) {
  return std::count(names.begin(), names.end(), name);
}

TEST(Latent, ScoresAreScaledAsInTransformers) {
  auto init = init_of<DeepseekV3ForCausalLM>(config_from_json(parse_json(kDeepseekV3, "a test"), "config.json"));
  double factor = 0.1 * std::log(40.0) + 1;
  EXPECT_DOUBLE_EQ(init.attention_scale, factor * factor / std::sqrt(24.0));
  EXPECT_EQ(init.rope_scaling.attention_factor, 1);  // the quotient of mscale and mscale_all_dim
  EXPECT_FALSE(init.is_neox_style);
  init = init_of<DeepseekV3ForCausalLM>(read_changed(kDeepseekV3, "rope_scaling", nullptr));
  EXPECT_DOUBLE_EQ(init.attention_scale, 1 / std::sqrt(24.0));
  EXPECT_TRUE(init_of<DeepseekV3ForCausalLM>(read_changed(kDeepseekV3, "rope_interleave", false)).is_neox_style);
}

TEST(Latent, TheUpProjectionIsOneParameterOfThreeProducts) {
  std::vector<std::string> names = names_of(config_from_json(parse_json(kDeepseekV3, "a test"), "config.json"));
  EXPECT_EQ(count_of(names, "model.layers.0.self_attn.kv_b_proj.weight"), 1);
  for (const char* name : {"q_a_proj.weight", "q_a_layernorm.weight", "q_b_proj.weight", "kv_a_proj_with_mqa.weight",
                           "kv_a_layernorm.weight", "o_proj.weight"})
    EXPECT_EQ(count_of(names, std::string("model.layers.1.self_attn.") + name), 1) << name;
  EXPECT_EQ(count_of(names, "model.layers.1.mlp.gate.e_score_correction_bias"), 1);
  names = names_of(read_changed(kDeepseekV3, "q_lora_rank", nullptr));
  EXPECT_EQ(count_of(names, "model.layers.0.self_attn.q_proj.weight"), 1);
  EXPECT_EQ(count_of(names, "model.layers.0.self_attn.q_a_proj.weight"), 0);
}

TEST(Latent, RefusesWhatItLacks) {
  expect_sentence(refused(kDeepseekV3, "num_key_value_heads", 2), {"num_key_value_heads 2", "num_attention_heads 4"});
  expect_sentence(refused(kDeepseekV3, "qk_rope_head_dim", 7), {"qk_rope_head_dim", "even", "7"});
  expect_sentence(refused(kDeepseekV3, "n_group", 3), {"n_group 3", "n_routed_experts 8"});
  expect_sentence(refused(kDeepseekV3, "model_type", "llama"), {"deepseek_v3", "llama"});
  EXPECT_EQ(refused(kDeepseekV3, "model_type", "kimi_k2"), "(no error)");
  expect_sentence(refused(kDeepseekV3, "scoring_func", "softmax"), {"scoring_func 'softmax'", "only sigmoid"});
  expect_sentence(refused(kDeepseekV3, "topk_method", "group_limited_greedy"), {"'group_limited_greedy'", "noaux_tc"});
  expect_sentence(refused(kDeepseekV3, "moe_layer_freq", 2), {"moe_layer_freq must be 1", "is 2"});
}

TEST(SparseLatent, IndexersDifferInTheirRotation) {
  auto v32 = init_of<DeepseekV32ForCausalLM>(
      config_from_json(sparse("DeepseekV32ForCausalLM", "deepseek_v32"), "config.json"));
  auto glm =
      init_of<GlmMoeDsaForCausalLM>(config_from_json(sparse("GlmMoeDsaForCausalLM", "glm_moe_dsa"), "config.json"));
  EXPECT_TRUE(v32.index_is_neox_style);
  EXPECT_FALSE(glm.index_is_neox_style);
  EXPECT_FALSE(v32.is_neox_style);
  std::vector<std::string> names =
      names_of(config_from_json(sparse("DeepseekV32ForCausalLM", "deepseek_v32"), "config.json"));
  for (const char* name : {"wq_b.weight", "wk.weight", "k_norm.weight", "k_norm.bias", "weights_proj.weight"})
    EXPECT_EQ(count_of(names, std::string("model.layers.1.self_attn.indexer.") + name), 1) << name;
}

TEST(SparseLatent, RefusesWhatItLacks) {
  auto refusal = [](const std::string& key, const Json& value) {
    Json json = sparse("GlmMoeDsaForCausalLM", "glm_moe_dsa");
    json[key] = value;
    return error_of([&] { config_from_json(json, "config.json"); });
  };
  EXPECT_EQ(refusal("indexer_types", {"full", "full"}), "(no error)");
  expect_sentence(refusal("indexer_types", {"full", "shared"}), {"indexer_types", "shared", "full"});
  expect_sentence(refusal("index_topk_freq", 2), {"share"});
  expect_sentence(refusal("q_lora_rank", nullptr), {"q_lora_rank", "indexer"});
  expect_sentence(refusal("index_head_dim", 6), {"index_head_dim 6", "8"});
  EXPECT_EQ(refusal("mlp_layer_types", {"dense", "sparse"}), "(no error)");
  for (const char* type : {"deepseek_sparse_attention", "indexed_attention"})
    EXPECT_EQ(refusal("layer_types", {type, type}), "(no error)");
  expect_sentence(refusal("layer_types", {"indexed_attention", "full_attention"}), {"full_attention", "only"});
  expect_sentence(refusal("scoring_func", "softmax"), {"scoring_func 'softmax'"});
  expect_sentence(refusal("mlp_layer_types", {"sparse", "dense"}), {"mlp_layer_types", "2 layers"});
}

}  // namespace
}  // namespace fk
