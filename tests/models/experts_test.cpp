// Families with experts: what they read and refuse, and how their checkpoints call the experts.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/json.h"
#include "models/config.h"
#include "ops/l4/glm4_moe_for_causal_lm.h"
#include "ops/l4/gpt_oss_for_causal_lm.h"
#include "ops/l4/llama4_for_causal_lm.h"
#include "ops/l4/mixtral_for_causal_lm.h"
#include "ops/l4/qwen2_moe_for_causal_lm.h"
#include "ops/l4/qwen3_moe_for_causal_lm.h"
#include "tests/models/changed_config.h"
#include "tests/models/error_text.h"
#include "tests/models/init_of.h"

namespace fk {
namespace {

// As published, with one layer.
constexpr const char* kMixtral = R"({"architectures": ["MixtralForCausalLM"], "model_type": "mixtral",
  "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 96, "max_position_embeddings": 32768,
  "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 1, "num_key_value_heads": 2,
  "num_local_experts": 3, "output_router_logits": false, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
  "router_aux_loss_coef": 0.02, "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "vocab_size": 32000})";
constexpr const char* kQwen2Moe = R"({"architectures": ["Qwen2MoeForCausalLM"], "model_type": "qwen2_moe",
  "decoder_sparse_step": 1, "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 96,
  "max_position_embeddings": 8192, "max_window_layers": 21, "moe_intermediate_size": 24, "norm_topk_prob": false,
  "num_attention_heads": 4, "num_experts": 6, "num_experts_per_tok": 4, "num_hidden_layers": 4,
  "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "shared_expert_intermediate_size": 80,
  "sliding_window": 32768, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_sliding_window": false,
  "vocab_size": 151936})";
constexpr const char* kQwen3Moe = R"({"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
  "attention_bias": false, "decoder_sparse_step": 1, "head_dim": 32, "hidden_act": "silu", "hidden_size": 64,
  "intermediate_size": 96, "max_position_embeddings": 40960, "max_window_layers": 48, "mlp_only_layers": [],
  "moe_intermediate_size": 24, "norm_topk_prob": true, "num_attention_heads": 4, "num_experts": 16,
  "num_experts_per_tok": 8, "num_hidden_layers": 4, "num_key_value_heads": 4, "rms_norm_eps": 1e-06,
  "rope_scaling": null, "rope_theta": 1000000.0, "sliding_window": null, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16", "use_sliding_window": false, "vocab_size": 151936})";

constexpr const char* kGlm4Moe = R"({"architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe",
  "attention_bias": true, "attention_dropout": 0.0, "first_k_dense_replace": 1, "head_dim": 16, "hidden_act": "silu",
  "hidden_size": 64, "intermediate_size": 96, "max_position_embeddings": 131072, "moe_intermediate_size": 24,
  "n_group": 1, "n_routed_experts": 8, "n_shared_experts": 2, "norm_topk_prob": true, "num_attention_heads": 4,
  "num_experts_per_tok": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "num_nextn_predict_layers": 1,
  "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 1000000,
  "routed_scaling_factor": 2.5, "tie_word_embeddings": false, "topk_group": 1, "torch_dtype": "bfloat16",
  "use_qk_norm": true, "vocab_size": 151552})";
constexpr const char* kGptOss = R"({"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss",
  "attention_bias": true, "attention_dropout": 0.0, "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu",
  "hidden_size": 64, "initial_context_length": 4096, "intermediate_size": 96, "max_position_embeddings": 131072,
  "num_attention_heads": 4, "num_experts_per_tok": 4, "num_hidden_layers": 3, "num_key_value_heads": 2,
  "num_local_experts": 8, "output_router_logits": false, "quantization_config": {"modules_to_not_convert":
  ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"], "quant_method": "mxfp4"},
  "rms_norm_eps": 1e-05, "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
  "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false}, "rope_theta": 150000,
  "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0, "tie_word_embeddings": false,
  "vocab_size": 201088})";

constexpr const char* kLlama4 = R"({"architectures": ["Llama4ForCausalLM"], "model_type": "llama4_text",
  "attention_bias": false, "attention_chunk_size": 8192, "attention_dropout": 0.0, "attn_scale": 0.1,
  "attn_temperature_tuning": true, "floor_scale": 8192, "for_llm_compressor": false, "head_dim": 16,
  "hidden_act": "silu", "hidden_size": 64, "interleave_moe_layer_step": 2, "intermediate_size": 48,
  "intermediate_size_mlp": 96, "max_position_embeddings": 10485760, "moe_layers": null, "no_rope_layers": [],
  "num_attention_heads": 4, "num_experts_per_tok": 1, "num_hidden_layers": 5, "num_key_value_heads": 2,
  "num_local_experts": 16, "output_router_logits": false, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 16.0,
  "high_freq_factor": 1.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "rope_theta": 500000.0, "router_jitter_noise": 0.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "use_qk_norm": true, "vocab_size": 202048})";

bool has(const std::vector<std::string>& all, std::string_view name) {
  return std::binary_search(all.begin(), all.end(), "model.layers.0." + std::string(name));
}

TEST(Experts, HaveTheNamesOfTheirCheckpoints) {
  std::vector<std::string> mixtral = checkpoint_names(changed(kMixtral, {}));
  for (const char* name : {"gate.weight", "experts.0.w1.weight", "experts.2.w2.weight", "experts.1.w3.weight"})
    EXPECT_TRUE(has(mixtral, std::string("block_sparse_moe.") + name)) << name;
  EXPECT_FALSE(has(mixtral, "block_sparse_moe.experts.3.w1.weight"));
  // 3 experts of 3 matrices, the router, 4 projections, 2 norms; embedding, norm and head.
  EXPECT_EQ(mixtral.size(), 9u + 1 + 4 + 2 + 3);

  std::vector<std::string> qwen = checkpoint_names(changed(kQwen2Moe, {}));
  for (const char* name : {"gate.weight", "experts.5.down_proj.weight", "experts.0.gate_proj.weight",
                           "shared_expert.up_proj.weight", "shared_expert_gate.weight"})
    EXPECT_TRUE(has(qwen, std::string("mlp.") + name)) << name;
  EXPECT_TRUE(has(qwen, "self_attn.q_proj.bias"));
  EXPECT_FALSE(has(checkpoint_names(changed(kQwen2Moe, {{"qkv_bias", "false"}})), "self_attn.q_proj.bias"));

  std::vector<std::string> dense = checkpoint_names(changed(kQwen3Moe, {{"mlp_only_layers", "[0]"}}));
  EXPECT_TRUE(has(dense, "mlp.up_proj.weight") && has(dense, "self_attn.q_norm.weight"));
  EXPECT_FALSE(has(dense, "mlp.gate.weight"));
}

TEST(Experts, OfGlmHaveACorrectionAndASharedOne) {
  std::vector<std::string> glm = checkpoint_names(changed(kGlm4Moe, {{"first_k_dense_replace", "0"}}));
  for (const char* name : {"gate.weight", "gate.e_score_correction_bias", "experts.7.down_proj.weight",
                           "experts.0.gate_proj.weight", "shared_experts.up_proj.weight"})
    EXPECT_TRUE(has(glm, std::string("mlp.") + name)) << name;
  EXPECT_TRUE(has(glm, "self_attn.q_norm.weight") && has(glm, "self_attn.q_proj.bias"));
  EXPECT_FALSE(has(glm, "self_attn.o_proj.bias"));
  EXPECT_FALSE(has(checkpoint_names(changed(kGlm4Moe, {{"use_qk_norm", "false"}})), "self_attn.q_norm.weight"));
  EXPECT_TRUE(has(checkpoint_names(changed(kGlm4Moe, {})), "mlp.up_proj.weight"));  // layer 0 has no experts
  auto init = init_of<Glm4MoeForCausalLM>(changed(kGlm4Moe, {}));
  EXPECT_EQ(init.rotary_dim, 8);
  EXPECT_EQ(Glm4MoeForCausalLM::layer(init, 1).moe.shared_expert_intermediate_size, 48);
}

TEST(Experts, OfGlmRefuseGroupsThatDoNotFit) {
  expect_sentence(refusal(kGlm4Moe, "n_group", "3"), {"n_group 3", "n_routed_experts 8"});
  expect_sentence(refusal(kGlm4Moe, "n_group", "8"), {"n_group 8", "two or more"});
  expect_sentence(refusal(kGlm4Moe, "topk_group", "2"), {"topk_group 2", "n_group 1"});
  expect_sentence(error_of([] {
                    changed(kGlm4Moe, {{"n_group", "4"}, {"topk_group", "1"}});
                  }),
                  {"topk_group 1", "num_experts_per_tok 4"});
}

TEST(Experts, OfGlmAreChosenInOneWay) {
  EXPECT_EQ(refusal(kGlm4Moe, "scoring_func", "\"sigmoid\""), "(no error)");
  expect_sentence(refusal(kGlm4Moe, "scoring_func", "\"softmax\""), {"scoring_func 'softmax'", "only sigmoid"});
  expect_sentence(refusal(kGlm4Moe, "topk_method", "\"greedy\""), {"topk_method 'greedy'", "only noaux_tc"});
  expect_sentence(refusal(kGlm4Moe, "moe_layer_freq", "2"), {"moe_layer_freq must be 1"});
}

TEST(Experts, OfGptOssAreStoredInTwoTensors) {
  std::vector<std::string> quantised = checkpoint_names(changed(kGptOss, {}));
  for (const char* name :
       {"router.weight", "router.bias", "experts.gate_up_proj_blocks", "experts.gate_up_proj_scales",
        "experts.gate_up_proj_bias", "experts.down_proj_blocks", "experts.down_proj_scales", "experts.down_proj_bias"})
    EXPECT_TRUE(has(quantised, std::string("mlp.") + name)) << name;
  EXPECT_TRUE(has(quantised, "self_attn.sinks") && has(quantised, "self_attn.o_proj.bias"));
  std::vector<std::string> plain = checkpoint_names(changed(kGptOss, {{"quantization_config", "null"}}));
  EXPECT_TRUE(has(plain, "mlp.experts.gate_up_proj") && has(plain, "mlp.experts.down_proj"));
  EXPECT_FALSE(has(plain, "mlp.experts.down_proj_blocks"));

  auto init = init_of<GptOssForCausalLM>(changed(kGptOss, {}));
  EXPECT_EQ(init.experts_format, "mxfp4");
  EXPECT_EQ(init.layer_is_sliding, (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(init.sliding_window, 128);
  // The defaults of transformers are those of the published models.
  Json json = parse_json(kGptOss, "the test's config");
  for (const char* key : {"rope_scaling", "rope_theta", "sliding_window", "swiglu_limit"}) json.erase(key);
  EXPECT_EQ(config_from_json(json, "config.json").init, changed(kGptOss, {}).init);
}

TEST(Experts, OfGptOssHaveOneActivation) {
  EXPECT_EQ(refusal(kGptOss, "swiglu_alpha", "1.702"), "(no error)");
  expect_sentence(refusal(kGptOss, "swiglu_alpha", "1.0"), {"swiglu_alpha 1 is not supported", "1.702"});
}

TEST(Experts, OfGptOssRefuseOtherFormats) {
  expect_sentence(refusal(kGptOss, "quantization_config", R"({"quant_method": "gptq"})"), {"'gptq'", "mxfp4"});
  expect_sentence(refusal(kGptOss, "quantization_config", "{}"), {"''", "mxfp4"});
  expect_sentence(refusal(kGptOss, "hidden_size", "72"), {"MXFP4", "multiples of 32", "72"});
}

TEST(Experts, OfLlama4AreOneTensorAndOnEveryOtherLayer) {
  std::vector<std::string> all = checkpoint_names(changed(kLlama4, {{"interleave_moe_layer_step", "1"}}));
  for (const char* name : {"router.weight", "experts.gate_up_proj", "experts.down_proj",
                           "shared_expert.gate_proj.weight", "shared_expert.down_proj.weight"})
    EXPECT_TRUE(has(all, std::string("feed_forward.") + name)) << name;
  EXPECT_FALSE(has(all, "self_attn.qk_norm.weight"));  // its norm has no weight
  EXPECT_TRUE(has(checkpoint_names(changed(kLlama4, {})), "feed_forward.gate_proj.weight"));

  auto init = init_of<Llama4ForCausalLM>(changed(kLlama4, {}));
  EXPECT_EQ(init.layer_has_experts, (std::vector<uint8_t>{0, 1, 0, 1, 0}));
  EXPECT_EQ(init.layer_has_rope, (std::vector<uint8_t>{1, 1, 1, 0, 1}));
  EXPECT_EQ(init.layer_is_chunked, init.layer_has_rope);
  Llama4DecoderLayerInit global = Llama4ForCausalLM::layer(init, 3), local = Llama4ForCausalLM::layer(init, 4);
  EXPECT_EQ(global.attention.attention_chunk_size, 0);
  EXPECT_FALSE(global.attention.use_rope);
  EXPECT_EQ(local.attention.attention_chunk_size, 8192);
  EXPECT_EQ(local.mlp.intermediate_size, 96);
  EXPECT_EQ(init_of<Llama4ForCausalLM>(changed(kLlama4, {{"moe_layers", "[4]"}})).layer_has_experts,
            (std::vector<uint8_t>{0, 0, 0, 0, 1}));
}

// The published checkpoints hold a vision part, too.
TEST(Experts, OfLlama4AreReadFromTheWholeModelsConfig) {
  Json whole = {{"architectures", {"Llama4ForConditionalGeneration"}},
                {"model_type", "llama4"},
                {"text_config", parse_json(kLlama4, "the test's config")},
                {"vision_config", Json::object()}};
  whole["text_config"].erase("architectures");
  EXPECT_EQ(config_from_json(whole, "config.json").init, changed(kLlama4, {}).init);
}

TEST(Experts, OfLlama4RefuseWhatIsNotComputed) {
  expect_sentence(refusal(kLlama4, "num_experts_per_tok", "2"), {"num_experts_per_tok 2", "only 1"});
  expect_sentence(refusal(kLlama4, "attention_chunk_size", "null"), {"attention_chunk_size"});
  for (const char* value : {"[1, 1]", "[1, 1, 1, 2, 1]", "\"1\"", "[1, 1, 1, 1, \"0\"]"})
    expect_sentence(refusal(kLlama4, "no_rope_layers", value), {"no_rope_layers", "5 layers"});
  expect_sentence(refusal(kLlama4, "moe_layers", "[5]"), {"moe_layers holds 5", "from 0 to 4"});
  expect_sentence(refusal(kLlama4, "layer_types", R"(["sliding_attention", "", "", "", ""])"),
                  {"sliding_attention", "chunked_attention and full_attention"});
}

TEST(Experts, AreOnTheLayersTheConfigNames) {
  auto layers = [](const ModelConfig& config) {
    auto init = init_of<Qwen3MoeForCausalLM>(config);
    std::string found;
    for (int64_t i = 0; i < init.num_hidden_layers; ++i)
      found += Qwen3MoeForCausalLM::layer(init, i).has_experts() ? 'e' : '.';
    return found;
  };
  EXPECT_EQ(layers(changed(kQwen3Moe, {})), "eeee");
  EXPECT_EQ(layers(changed(kQwen3Moe, {{"decoder_sparse_step", "2"}})), ".e.e");
  EXPECT_EQ(layers(changed(kQwen3Moe, {{"mlp_only_layers", "[0, 3]"}})), ".ee.");
  EXPECT_EQ(layers(changed(kQwen3Moe, {{"decoder_sparse_step", "9"}})), "....");
}

TEST(Experts, ReadWhatTransformersDefaults) {
  Json json = parse_json(kQwen3Moe, "the test's config");
  for (const char* key : {"num_experts", "num_experts_per_tok", "norm_topk_prob", "moe_intermediate_size"})
    json.erase(key);
  auto init = init_of<Qwen3MoeForCausalLM>(config_from_json(json, "config.json"));
  EXPECT_EQ(init.num_experts, 128);
  EXPECT_EQ(init.num_experts_per_tok, 8);
  EXPECT_EQ(init.moe_intermediate_size, 768);
  EXPECT_FALSE(init.norm_topk_prob);
  // The spelling of transformers 5.
  json["num_local_experts"] = 12;
  EXPECT_EQ(init_of<Qwen3MoeForCausalLM>(config_from_json(json, "config.json")).num_experts, 12);
}

TEST(Experts, WindowsAreThoseOfTransformers) {
  auto windows = [](const ModelConfig& config) {
    auto init = init_of<Qwen2MoeForCausalLM>(config);
    std::vector<int64_t> all;
    for (int64_t i = 0; i < init.num_hidden_layers; ++i)
      all.push_back(Qwen2MoeForCausalLM::layer(init, i).attention.sliding_window);
    return all;
  };
  EXPECT_EQ(windows(changed(kQwen2Moe, {})), (std::vector<int64_t>{0, 0, 0, 0}));
  ModelConfig sliding = changed(kQwen2Moe, {{"use_sliding_window", "true"}, {"sliding_window", "64"}});
  EXPECT_EQ(windows(sliding), (std::vector<int64_t>{64, 0, 64, 0}));
  EXPECT_EQ(windows(changed(kQwen2Moe,
                            {{"use_sliding_window", "true"}, {"sliding_window", "64"}, {"max_window_layers", "1"}})),
            (std::vector<int64_t>{64, 0, 0, 0}));
  EXPECT_EQ(init_of<Qwen3MoeForCausalLM>(changed(kQwen3Moe, {{"use_sliding_window", "true"}, {"sliding_window", "9"}}))
                .sliding_window,
            9);
  EXPECT_EQ(init_of<MixtralForCausalLM>(changed(kMixtral, {{"sliding_window", "4096"}})).sliding_window, 4096);
}

TEST(Experts, RefuseWhatCannotBe) {
  expect_sentence(refusal(kMixtral, "num_experts_per_tok", "4"), {"num_experts_per_tok 4", "num_local_experts 3"});
  expect_sentence(refusal(kQwen3Moe, "num_experts_per_tok", "17"), {"num_experts_per_tok 17", "num_experts 16"});
  for (const char* value : {"0", "-1", "1.5", "\"8\"", "1000000000"})
    expect_sentence(refusal(kMixtral, "num_local_experts", value), {"num_local_experts"});
  expect_sentence(refusal(kQwen3Moe, "decoder_sparse_step", "0"), {"decoder_sparse_step"});
  expect_sentence(refusal(kQwen3Moe, "mlp_only_layers", "4"), {"mlp_only_layers must be a list"});
  for (const char* value : {"[4]", "[-1]", "[\"0\"]", "[0.5]"})
    expect_sentence(refusal(kQwen3Moe, "mlp_only_layers", value), {"mlp_only_layers holds", "from 0 to 3"});
  expect_sentence(refusal(kMixtral, "hidden_act", "\"gelu\""), {"'gelu'", "silu"});
}

}  // namespace
}  // namespace fk
