// Kimi-Linear: what it reads and refuses, and what its checkpoints call its parts.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/json.h"
#include "models/checkpoint_names.h"
#include "models/config.h"
#include "models/family.h"
#include "ops/l4/kimi_linear_for_causal_lm.h"
#include "ops/registry.h"
#include "tests/models/error_text.h"
#include "tests/models/init_of.h"
#include "tests/models/safetensors_bytes.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

// The keys of the published file, with three layers and small sizes.
constexpr const char* kPublished = R"({"architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear",
  "dtype": "bfloat16", "first_k_dense_replace": 1, "head_dim": 72, "hidden_act": "silu", "hidden_size": 64,
  "intermediate_size": 96, "kv_lora_rank": 32, "linear_attn_config": {"full_attn_layers": [3], "kda_layers": [1, 2],
  "head_dim": 16, "num_heads": 5, "short_conv_kernel_size": 4}, "mla_use_nope": true, "model_max_length": 1048576,
  "moe_intermediate_size": 24, "moe_layer_freq": 1, "moe_renormalize": true, "moe_router_activation_func": "sigmoid",
  "num_attention_heads": 4, "num_expert_group": 1, "num_experts": 8, "num_experts_per_token": 2,
  "num_hidden_layers": 3, "num_key_value_heads": 4, "num_nextn_predict_layers": 0, "num_shared_experts": 1,
  "q_lora_rank": null, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "rms_norm_eps": 1e-05, "rope_scaling": null,
  "rope_theta": 10000.0, "routed_scaling_factor": 2.446, "tie_word_embeddings": false, "topk_group": 1,
  "use_grouped_topk": true, "v_head_dim": 12, "vocab_size": 300})";

ModelConfig published_with(const std::string& key, const Json& value) {
  Json json = parse_json(kPublished, "a test");
  json[key] = value;
  return config_from_json(json, "config.json");
}
std::string refusal_of(const std::string& key, const Json& value) {
  return error_of([&] { published_with(key, value); });
}
std::string refusal_of_linear(const std::string& key, const Json& value) {
  Json linear = parse_json(kPublished, "a test").at("linear_attn_config");
  linear[key] = value;
  return refusal_of("linear_attn_config", linear);
}

TEST(KimiLinear, ReadsThePublishedFile) {
  auto init = init_of<KimiLinearForCausalLM>(config_from_json(parse_json(kPublished, "a test"), "config.json"));
  EXPECT_EQ(init.layer_is_linear, (std::vector<uint8_t>{1, 1, 0}));
  EXPECT_EQ(init.linear_num_heads, 5);
  EXPECT_EQ(init.linear_head_dim, 16);
  EXPECT_EQ(init.max_position_embeddings, 1048576);
  EXPECT_EQ(init.q_lora_rank, 0);
  EXPECT_EQ(init.first_k_dense_replace, 1);
  EXPECT_FALSE(KimiLinearForCausalLM::layer(init, 0).has_experts());
  EXPECT_TRUE(KimiLinearForCausalLM::layer(init, 1).is_linear());
  const KimiDecoderLayerInit last = KimiLinearForCausalLM::layer(init, 2);
  EXPECT_FALSE(last.is_linear() || last.attention.rotary);
  EXPECT_EQ(last.moe.routed_scaling_factor, 2.446);
}

TEST(KimiLinear, CheckpointsHaveThePublishedNames) {
  const ModelConfig config = published_with("rope_theta", 10000);
  std::unique_ptr<Node> root = Registry::instance().at(config.family->op).build(config.init, {});
  std::vector<std::string> names;
  for (const ParamSpec& p : checkpoint_params(*root, config)) {
    if (p.part_names.empty()) names.push_back(p.name);
    names.insert(names.end(), p.part_names.begin(), p.part_names.end());
  }
  for (const char* name :
       {"model.layers.0.mlp.gate_proj.weight", "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.f_a_proj.weight", "model.layers.0.self_attn.g_b_proj.weight",
        "model.layers.0.self_attn.b_proj.weight", "model.layers.1.self_attn.k_conv1d.weight",
        "model.layers.1.self_attn.A_log", "model.layers.1.self_attn.dt_bias", "model.layers.1.self_attn.o_norm.weight",
        "model.layers.1.block_sparse_moe.gate.e_score_correction_bias",
        "model.layers.1.block_sparse_moe.experts.7.w2.weight",
        "model.layers.1.block_sparse_moe.shared_experts.up_proj.weight",
        "model.layers.2.self_attn.kv_a_proj_with_mqa.weight", "model.layers.2.self_attn.q_proj.weight"})
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
}

// transformers 5.22 writes the dense layers so.
TEST(KimiLinear, DenseLayersHaveASecondName) {
  const ModelConfig config = published_with("rope_theta", 10000);
  std::unique_ptr<Node> root = Registry::instance().at(config.family->op).build(config.init, {});
  auto names_beside = [&](const std::string& stored) {
    std::vector<TensorBytes> tensors;
    for (const char* matrix : {"gate_proj", "up_proj", "down_proj"})
      tensors.push_back({"model.layers.0." + stored + "." + matrix + ".weight", "F32", "[1]", f32_bytes({0})});
    TempDirectory directory;
    directory.write("model.safetensors", safetensors_bytes(tensors));
    std::vector<ParamSpec> params = checkpoint_params(*root, config);
    find_part(params, config, Checkpoint::open(directory.path()));
    std::vector<std::string> names;
    for (const ParamSpec& p : params) {
      if (p.part_names.empty()) names.push_back(p.name);
      names.insert(names.end(), p.part_names.begin(), p.part_names.end());
    }
    return names;
  };
  for (const std::string stored : {"mlp", "block_sparse_moe"}) {
    const std::vector<std::string> names = names_beside(stored);
    for (const char* matrix : {"gate_proj", "up_proj", "down_proj"})
      EXPECT_EQ(std::count(names.begin(), names.end(), "model.layers.0." + stored + "." + matrix + ".weight"), 1)
          << stored << " " << matrix;
  }
}

TEST(KimiLinear, RefusesWhatItLacks) {
  EXPECT_EQ(refusal_of("rope_theta", 1e6), "(no error)");  // nothing is rotated
  expect_sentence(refusal_of("mla_use_nope", false), {"mla_use_nope", "rotated"});
  expect_sentence(refusal_of("moe_router_activation_func", "softmax"), {"softmax", "sigmoid"});
  expect_sentence(refusal_of("moe_layer_freq", 2), {"moe_layer_freq"});
  expect_sentence(refusal_of("num_expert_group", 3), {"n_group 3", "n_routed_experts 8"});
  expect_sentence(refusal_of("num_key_value_heads", 2), {"num_key_value_heads 2", "num_attention_heads 4"});
  expect_sentence(refusal_of("num_experts_per_token", 9), {"num_experts_per_tok 9"});
  expect_sentence(refusal_of("hidden_act", "gelu"), {"gelu", "silu"});
  expect_sentence(refusal_of("layer_types", {"linear_attention"}), {"layer_types", "3 layers"});
  expect_sentence(refusal_of("layer_types", {"linear_attention", "mamba", "full_attention"}), {"mamba"});
  expect_sentence(refusal_of("mlp_layer_types", {"sparse", "dense", "sparse"}), {"mlp_layer_types", "before"});
  expect_sentence(refusal_of("linear_attn_config", nullptr), {"linear_attn_config", "layer_types"});
  expect_sentence(refusal_of_linear("kda_layers", {1}), {"layer 2", "neither"});
  expect_sentence(refusal_of_linear("kda_layers", {1, 2, 3}), {"layer 3", "twice"});
  expect_sentence(refusal_of_linear("kda_layers", {1, 4}), {"kda_layers holds 4", "from 1 to 3"});
  expect_sentence(refusal_of_linear("short_conv_kernel_size", 1), {"short_conv_kernel_size"});
  expect_sentence(refusal_of("quantization_config", {{"quant_method", "hqq"}}), {"'hqq'", "fp8"});
}

}  // namespace
}  // namespace fk
