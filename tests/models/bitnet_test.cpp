// BitNet: what it reads and refuses, and how its checkpoints call their tensors.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/json.h"
#include "core/memory.h"
#include "core/thread_pool.h"
#include "models/checkpoint_names.h"
#include "models/config.h"
#include "models/dummy_weights.h"
#include "models/family.h"
#include "ops/formats/scaled_format.h"
#include "ops/l4/bitnet_for_causal_lm.h"
#include "ops/registry.h"
#include "tests/models/error_text.h"
#include "tests/models/init_of.h"

namespace fk {
namespace {

constexpr const char* kConfig = R"({"architectures": ["BitNetForCausalLM"], "model_type": "bitnet",
  "hidden_act": "relu2", "hidden_size": 64, "intermediate_size": 96, "max_position_embeddings": 4096,
  "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2, "rms_norm_eps": 1e-05,
  "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "vocab_size": 1000,
  "quantization_config": {"linear_class": "autobitlinear", "quant_method": "bitnet",
                          "quantization_mode": "offline"}})";

ModelConfig with(const std::string& key, const char* value) {
  Json json = parse_json(kConfig, "the test's config");
  json[key] = parse_json(value, "the test's value");
  return config_from_json(json, "config.json");
}
std::string refusal_of(const std::string& key, const char* value) {
  return error_of([&] { with(key, value); });
}
std::string format_for(const char* quantization) {
  return init_of<BitNetForCausalLM>(with("quantization_config", quantization)).weight_format;
}

std::vector<std::string> checkpoint_names(const ModelConfig& config) {
  std::unique_ptr<Node> root = Registry::instance().at(config.family->op).build(config.init, {.oracle = true});
  std::vector<std::string> all;
  for (const ParamSpec& param : checkpoint_params(*root, config)) {
    if (param.part_names.empty()) all.push_back(param.name);
    all.insert(all.end(), param.part_names.begin(), param.part_names.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST(BitNet, HasTheNamesOfItsCheckpoints) {
  std::vector<std::string> ternary = checkpoint_names(with("dtype", "\"bfloat16\""));
  auto has = [](const std::vector<std::string>& all, std::string_view name) {
    return std::binary_search(all.begin(), all.end(), "model.layers.0." + std::string(name));
  };
  for (const char* name :
       {"self_attn.q_proj.weight", "self_attn.k_proj.weight_scale", "self_attn.o_proj.weight_scale",
        "self_attn.attn_sub_norm.weight", "mlp.ffn_sub_norm.weight", "mlp.gate_proj.weight", "mlp.up_proj.weight_scale",
        "mlp.down_proj.weight", "mlp.down_proj.weight_scale", "input_layernorm.weight"})
    EXPECT_TRUE(has(ternary, name)) << name;
  std::vector<std::string> plain = checkpoint_names(with("quantization_config", "null"));
  EXPECT_TRUE(has(plain, "mlp.up_proj.weight"));
  EXPECT_FALSE(has(plain, "mlp.up_proj.weight_scale"));
}

TEST(BitNet, ScalesMultiplyOrDivide) {
  EXPECT_EQ(format_for(R"({"quant_method": "bitnet", "linear_class": "autobitlinear"})"),
            "ternary;embed_tokens=none;lm_head=none");
  for (const char* text :
       {R"({"quant_method": "bitnet"})",
        R"({"quant_method": "bitnet", "linear_class": "bitlinear", "modules_to_not_convert": ["lm_head"]})"})
    EXPECT_EQ(format_for(text), "ternary_inverse;embed_tokens=none;lm_head=none");
}

TEST(BitNet, RefusesWhatIsNotComputed) {
  auto quantization = [](const char* text) { return refusal_of("quantization_config", text); };
  expect_sentence(quantization(R"({"quant_method": "gptq"})"), {"'gptq'", "bitnet"});
  expect_sentence(quantization(R"({"quant_method": "bitnet", "linear_class": "x"})"), {"'x'", "autobitlinear"});
  expect_sentence(
      quantization(R"({"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "online"})"),
      {"'online'", "offline"});
  expect_sentence(quantization(R"({"quant_method": "bitnet", "use_rms_norm": true})"), {"use_rms_norm"});
  expect_sentence(quantization(R"({"quant_method": "bitnet", "modules_to_not_convert": []})"), {"lm_head"});
  expect_sentence(
      quantization(R"({"quant_method": "bitnet", "modules_to_not_convert": ["lm_head", "layers.2.mlp.up_proj"]})"),
      {"mlp.up_proj", "ternary"});
  expect_sentence(refusal_of("hidden_act", "\"silu\""), {"silu", "relu2"});
  expect_sentence(refusal_of("head_dim", "32"), {"head_dim 32", "hidden_size 64"});
}

// Code 3 is none; -1 and 1 are equally many, else all outputs of a dummy matrix have the same sign.
TEST(BitNet, DummyMatricesAreTernaryAndBalanced) {
  ThreadPool pool(1);
  ParamSpec codes = scaled_format("ternary").tensors(4 * 64, 100)[0];
  Tensor bytes(codes.spec.shape, codes.spec.dtype);
  fill_dummy_tensor(bytes, *codes.fill, 0, "model.layers.0.mlp.up_proj.weight", pool);
  int counts[4] = {};
  for (int64_t i = 0; i < bytes.view().numel(); ++i)
    for (int shift = 0; shift < 8; shift += 2) ++counts[bytes.view().ptr<uint8_t>()[i] >> shift & 3];
  EXPECT_EQ(counts[3], 0);
  EXPECT_NEAR(counts[0], 6400, 300);
  EXPECT_NEAR(counts[2], 6400, 300);
}

}  // namespace
}  // namespace fk
