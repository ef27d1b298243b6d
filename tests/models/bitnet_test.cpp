// BitNet: what it reads and refuses, and how its checkpoints call their tensors.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/memory.h"
#include "core/thread_pool.h"
#include "models/config.h"
#include "models/dummy_weights.h"
#include "ops/formats/scaled_format.h"
#include "ops/l4/bitnet_for_causal_lm.h"
#include "tests/models/changed_config.h"
#include "tests/models/error_text.h"
#include "tests/models/init_of.h"

namespace fk {
namespace {

constexpr const char* kBitNet = R"({"architectures": ["BitNetForCausalLM"], "model_type": "bitnet",
  "hidden_act": "relu2", "hidden_size": 64, "intermediate_size": 96, "max_position_embeddings": 4096,
  "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2, "rms_norm_eps": 1e-05,
  "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "vocab_size": 1000,
  "quantization_config": {"linear_class": "autobitlinear", "quant_method": "bitnet",
                          "quantization_mode": "offline"}})";

std::string format_for(const char* quantization) {
  return init_of<BitNetForCausalLM>(changed(kBitNet, "quantization_config", quantization)).weight_format;
}

TEST(BitNet, HasTheNamesOfItsCheckpoints) {
  std::vector<std::string> ternary = checkpoint_names(changed(kBitNet, "dtype", "\"bfloat16\""));
  auto has = [](const std::vector<std::string>& all, std::string_view name) {
    return std::binary_search(all.begin(), all.end(), "model.layers.0." + std::string(name));
  };
  for (const char* name :
       {"self_attn.q_proj.weight", "self_attn.k_proj.weight_scale", "self_attn.o_proj.weight_scale",
        "self_attn.attn_sub_norm.weight", "mlp.ffn_sub_norm.weight", "mlp.gate_proj.weight", "mlp.up_proj.weight_scale",
        "mlp.down_proj.weight", "mlp.down_proj.weight_scale", "input_layernorm.weight"})
    EXPECT_TRUE(has(ternary, name)) << name;
  std::vector<std::string> plain = checkpoint_names(changed(kBitNet, "quantization_config", "null"));
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
  auto quantization = [](const char* text) { return refusal(kBitNet, "quantization_config", text); };
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
  expect_sentence(refusal(kBitNet, "hidden_act", "\"silu\""), {"silu", "relu2"});
  expect_sentence(refusal(kBitNet, "head_dim", "32"), {"head_dim 32", "hidden_size 64"});
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
