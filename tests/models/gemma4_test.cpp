// Gemma 4: what it reads and refuses, and how its checkpoints call their tensors.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/json.h"
#include "models/config.h"
#include "ops/l4/gemma4_for_causal_lm.h"
#include "tests/models/changed_config.h"
#include "tests/models/error_text.h"
#include "tests/models/init_of.h"

namespace fk {
namespace {

constexpr const char* kGemma4 = R"({"architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text",
  "attention_bias": false, "attention_k_eq_v": true, "enable_moe_block": true, "final_logit_softcapping": 30.0,
  "global_head_dim": 32, "head_dim": 16, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 64,
  "hidden_size_per_layer_input": 0, "intermediate_size": 96, "max_position_embeddings": 4096,
  "moe_intermediate_size": 24, "num_attention_heads": 4, "num_experts": 8, "num_global_key_value_heads": 1,
  "num_hidden_layers": 7, "num_key_value_heads": 2, "num_kv_shared_layers": 0, "rms_norm_eps": 1e-06,
  "rope_parameters": {"full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0,
  "rope_type": "proportional"}, "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}},
  "sliding_window": 512, "tie_word_embeddings": true, "top_k_experts": 2, "use_bidirectional_attention": "vision",
  "use_double_wide_mlp": false, "vocab_size": 1000})";

bool has(const std::vector<std::string>& all, int64_t layer, std::string_view name) {
  return std::binary_search(all.begin(), all.end(), "model.layers." + std::to_string(layer) + "." + std::string(name));
}

TEST(Gemma4, HasTheNamesOfItsCheckpoints) {
  std::vector<std::string> all = checkpoint_names(changed(kGemma4, {}));
  for (const char* name : {"router.scale", "router.proj.weight", "router.per_expert_scale", "experts.gate_up_proj",
                           "experts.down_proj", "layer_scalar", "pre_feedforward_layernorm_2.weight",
                           "post_feedforward_layernorm_1.weight", "post_feedforward_layernorm_2.weight",
                           "mlp.gate_proj.weight", "self_attn.q_norm.weight", "self_attn.v_proj.weight"})
    EXPECT_TRUE(has(all, 0, name)) << name;
  EXPECT_FALSE(has(all, 0, "self_attn.v_norm.weight"));
  // Layer 5 is global: its values are its keys.
  EXPECT_TRUE(has(all, 5, "self_attn.k_proj.weight") && has(all, 5, "self_attn.q_proj.weight"));
  EXPECT_FALSE(has(all, 5, "self_attn.v_proj.weight"));
  EXPECT_TRUE(has(checkpoint_names(changed(kGemma4, {{"attention_k_eq_v", "false"}})), 5, "self_attn.v_proj.weight"));
  std::vector<std::string> dense = checkpoint_names(changed(kGemma4, {{"enable_moe_block", "false"}}));
  EXPECT_TRUE(has(dense, 0, "mlp.up_proj.weight") && has(dense, 0, "layer_scalar"));
  EXPECT_FALSE(has(dense, 0, "router.scale") || has(dense, 0, "post_feedforward_layernorm_1.weight"));
}

TEST(Gemma4, HasOtherHeadsOnGlobalLayers) {
  auto init = init_of<Gemma4ForCausalLM>(changed(kGemma4, {}));
  EXPECT_EQ(init.layer_is_sliding, (std::vector<uint8_t>{1, 1, 1, 1, 1, 0, 0}));  // the last is always global
  Gemma4DecoderLayerInit local = Gemma4ForCausalLM::layer(init, 0), global = Gemma4ForCausalLM::layer(init, 5);
  EXPECT_EQ(local.attention.head_dim, 16);
  EXPECT_EQ(local.attention.num_kv_heads, 2);
  EXPECT_EQ(local.attention.rope_theta, 10000);
  EXPECT_EQ(local.attention.rope_scaling.type, "default");
  EXPECT_EQ(global.attention.head_dim, 32);
  EXPECT_EQ(global.attention.num_kv_heads, 1);
  EXPECT_EQ(global.attention.sliding_window, 0);
  EXPECT_EQ(global.attention.rope_scaling.type, "proportional");
  EXPECT_EQ(global.attention.rope_scaling.partial_rotary_factor, 0.25);
  // Without attention_k_eq_v transformers does not look at the number of global key heads.
  auto apart = init_of<Gemma4ForCausalLM>(changed(kGemma4, {{"attention_k_eq_v", "false"}}));
  EXPECT_EQ(Gemma4ForCausalLM::layer(apart, 5).attention.num_kv_heads, 2);
}

// transformers 5.17 writes the heads of global layers layer by layer, and the rope is its default.
TEST(Gemma4, IsTheSameInBothSpellings) {
  EXPECT_EQ(changed(kGemma4, {{"global_head_dim", nullptr},
                              {"num_global_key_value_heads", nullptr},
                              {"rope_parameters", nullptr},
                              {"per_layer_config", R"({"5": {"head_dim": 32, "num_key_value_heads": 1},
                                           "6": {"head_dim": 32, "num_key_value_heads": 1}})"}})
                .init,
            changed(kGemma4, {}).init);
}

TEST(Gemma4, IsReadFromTheWholeModelsConfig) {
  Json whole = {{"architectures", {"Gemma4ForConditionalGeneration"}},
                {"model_type", "gemma4"},
                {"text_config", parse_json(kGemma4, "the test's config")},
                {"vision_config", Json::object()}};
  whole["text_config"].erase("architectures");
  EXPECT_EQ(config_from_json(whole, "config.json").init, changed(kGemma4, {}).init);
}

TEST(Gemma4, RefusesWhatIsNotComputed) {
  expect_sentence(refusal(kGemma4, "hidden_size_per_layer_input", "256"), {"hidden_size_per_layer_input must be 0"});
  expect_sentence(refusal(kGemma4, "hidden_size_per_layer_input", nullptr), {"hidden_size_per_layer_input must be 0"});
  expect_sentence(refusal(kGemma4, "num_kv_shared_layers", "2"), {"num_kv_shared_layers must be 0"});
  expect_sentence(refusal(kGemma4, "use_double_wide_mlp", "true"), {"use_double_wide_mlp"});
  expect_sentence(refusal(kGemma4, "use_bidirectional_attention", "\"all\""), {"use_bidirectional_attention 'all'"});
  expect_sentence(refusal(kGemma4, "is_causal", "false"), {"is_causal must be true"});
  expect_sentence(refusal(kGemma4, "attn_logit_softcapping", "50.0"), {"attn_logit_softcapping"});
  expect_sentence(refusal(kGemma4, "hidden_activation", "\"silu\""), {"silu", "gelu_pytorch_tanh"});
  expect_sentence(refusal(kGemma4, "quantization_config", R"({"quant_method": "hqq"})"), {"'hqq'", "fp8"});
  expect_sentence(refusal(kGemma4, "top_k_experts", "9"), {"top_k_experts 9", "num_experts 8"});
  expect_sentence(refusal(kGemma4, "num_experts", nullptr), {"num_experts"});
  expect_sentence(refusal(kGemma4, "num_global_key_value_heads", "3"), {"num_global_key_value_heads 3", "multiple"});
  expect_sentence(refusal(kGemma4, "global_head_dim", "33"), {"global_head_dim", "even"});
  expect_sentence(refusal(kGemma4, "sliding_window", "null"), {"sliding_window"});
  expect_sentence(
      refusal(kGemma4, "layer_types", R"(["full_attention", "full_attention", "full_attention", "full_attention",
                                                "full_attention", "full_attention", "sliding_attention"])"),
      {"last", "full_attention"});
  expect_sentence(refusal(kGemma4, "per_layer_config", R"({"0": {"head_dim": 32}})"), {"layer 0", "slides"});
  expect_sentence(refusal(kGemma4, "per_layer_config", R"({"5": {"head_dim": 32}})"), {"the same for all"});
  expect_sentence(refusal(kGemma4, "per_layer_config", R"({"5": {"intermediate_size": 32}})"), {"'intermediate_size'"});
  expect_sentence(refusal(kGemma4, "per_layer_config", R"({"7": {"head_dim": 32}})"), {"from 0 to 6"});
  expect_sentence(refusal(kGemma4, "rope_parameters", R"({"full_attention": {"rope_type": "yarn", "rope_theta": 1e6},
                                                    "sliding_attention": {"rope_theta": 1e4}})"),
                  {"'yarn'", "default and proportional"});
  expect_sentence(refusal(kGemma4, "rope_parameters", R"({"rope_theta": 1e6})"),
                  {"full_attention", "sliding_attention"});
}

}  // namespace
}  // namespace fk
