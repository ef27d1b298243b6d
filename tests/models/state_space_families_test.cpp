// What the families of state spaces read from config.json, what they refuse, and what their checkpoints call their
// parts.
#include <gtest/gtest.h>

#include <algorithm>

#include "models/checkpoint_names.h"
#include "models/config.h"
#include "models/family.h"
#include "ops/l4/falcon_mamba_for_causal_lm.h"
#include "ops/l4/jamba_for_causal_lm.h"
#include "ops/l4/mamba2_for_causal_lm.h"
#include "ops/l4/mamba_for_causal_lm.h"
#include "ops/registry.h"
#include "tests/models/changed_config.h"
#include "tests/models/error_text.h"
#include "tests/models/init_of.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

// Parts of published files.
constexpr const char* kMamba = R"({"architectures":["MambaForCausalLM"],"model_type":"mamba","hidden_size":2560,
  "intermediate_size":5120,"expand":2,"num_hidden_layers":64,"state_size":16,"conv_kernel":4,"time_step_rank":160,
  "layer_norm_epsilon":1e-05,"use_bias":false,"use_conv_bias":true,"hidden_act":"silu","residual_in_fp32":true,
  "vocab_size":50280,"torch_dtype":"float32"})";
constexpr const char* kMamba2 =
    R"({"architectures":["Mamba2ForCausalLM"],"model_type":"mamba2","hidden_size":4096,"expand":2,
  "num_hidden_layers":64,"state_size":128,"conv_kernel":4,"n_groups":8,"num_heads":128,"head_dim":64,"chunk_size":256,
  "layer_norm_epsilon":1e-05,"time_step_limit":[0.0,{"__float__":"Infinity"}],"vocab_size":32768,"torch_dtype":"bfloat16",
  "tie_word_embeddings":false})";
constexpr const char* kJamba = R"({"architectures":["JambaForCausalLM"],"model_type":"jamba","hidden_size":4096,
  "intermediate_size":14336,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"num_experts":16,
  "num_experts_per_tok":2,"attn_layer_period":8,"attn_layer_offset":4,"expert_layer_period":2,"expert_layer_offset":1,
  "mamba_d_state":16,"mamba_d_conv":4,"mamba_expand":2,"mamba_dt_rank":256,"rms_norm_eps":1e-06,"vocab_size":65536,
  "torch_dtype":"bfloat16"})";

TEST(MambaFamily, ReadsWhatTheFileSays) {
  MambaForCausalLM::Init init = init_of<MambaForCausalLM>(changed(kMamba, "none", nullptr));
  EXPECT_EQ(init.intermediate_size, 5120);
  EXPECT_EQ(init.time_step_rank, 160);
  EXPECT_TRUE(init.use_conv_bias && init.tie_word_embeddings);
  EXPECT_FALSE(init.use_bias);
  EXPECT_EQ(init_of<MambaForCausalLM>(changed(kMamba, "time_step_rank", "\"auto\"")).time_step_rank, 160);
  EXPECT_EQ(init_of<MambaForCausalLM>(changed(kMamba, "hidden_size", "2561")).intermediate_size, 5122)
      << "as transformers, which ignores intermediate_size";
  EXPECT_EQ(init_of<MambaForCausalLM>(changed(kMamba, "layer_norm_epsilon", "0.001")).rms_norm_eps, 0.001);
}

TEST(MambaFamily, RefusesWhatItDoesNotCompute) {
  expect_sentence(refusal(kMamba, "hidden_act", "\"gelu\""), {"gelu", "silu"});
  expect_sentence(refusal(kMamba, "conv_kernel", "9"), {"conv_kernel"});
  expect_sentence(refusal(kMamba, "hidden_size", nullptr), {"hidden_size"});
  expect_sentence(refusal(kMamba, "quantization_config", R"({"quant_method":"hqq"})"), {"'hqq'", "gptq"});
}

TEST(MambaFamily, TakesItsPartsFromTheBackbone) {
  ModelConfig config = changed(kMamba, "num_hidden_layers", "1");
  std::unique_ptr<Node> tree = Registry::instance().at("mamba_for_causal_lm").build(config.init, {});
  std::vector<std::string> names;
  for (const ParamSpec& p : checkpoint_params(*tree, config))
    names.push_back(p.part_names.empty() ? p.name : p.part_names.at(0));
  std::sort(names.begin(), names.end());
  const std::vector<std::string> expected = {"backbone.embeddings.weight",
                                             "backbone.layers.0.mixer.A_log",
                                             "backbone.layers.0.mixer.D",
                                             "backbone.layers.0.mixer.conv1d.bias",
                                             "backbone.layers.0.mixer.conv1d.weight",
                                             "backbone.layers.0.mixer.dt_proj.bias",
                                             "backbone.layers.0.mixer.dt_proj.weight",
                                             "backbone.layers.0.mixer.in_proj.weight",
                                             "backbone.layers.0.mixer.out_proj.weight",
                                             "backbone.layers.0.mixer.x_proj.weight",
                                             "backbone.layers.0.norm.weight",
                                             "backbone.norm_f.weight"};
  EXPECT_EQ(names, expected);
}

TEST(Mamba2Family, ReadsAndRefuses) {
  Mamba2ForCausalLM::Init init = init_of<Mamba2ForCausalLM>(changed(kMamba2, "none", nullptr));
  EXPECT_EQ(init.num_attention_heads, 128);
  EXPECT_EQ(init.n_groups, 8);
  EXPECT_EQ(Mamba2ForCausalLM::layer(init, 0).mixer.norm_group_size, 1024);
  expect_sentence(refusal(kMamba2, "time_step_limit", "[0.001, 0.1]"), {"time_step_limit"});
  expect_sentence(refusal(kMamba2, "num_heads", "100"), {"num_heads"});
  expect_sentence(refusal(kMamba2, "n_groups", "5"), {"n_groups"});
}

// Files written by older versions of transformers hold Python's word for infinity.
TEST(Mamba2Family, ReadsInfinityAsPythonWritesIt) {
  std::string text = kMamba2;
  std::string strict = R"({"__float__":"Infinity"})";
  text.replace(text.find(strict), strict.size(), "Infinity");
  TempDirectory folder;
  folder.write("config.json", text);
  EXPECT_EQ(read_config(folder.path()).facts.num_hidden_layers, 64);
}

TEST(JambaFamily, MixesItsLayers) {
  JambaForCausalLM::Init init = init_of<JambaForCausalLM>(changed(kJamba, "none", nullptr));
  for (int64_t i = 0; i < 32; ++i) {
    JambaDecoderLayer::Init layer = JambaForCausalLM::layer(init, i);
    EXPECT_EQ(layer.has_mamba(), i % 8 != 4) << i;
    EXPECT_EQ(layer.has_experts(), i % 2 == 1) << i;
  }
  expect_sentence(refusal(kJamba, "attn_layer_offset", "8"), {"attn_layer_offset", "attn_layer_period"});
}

}  // namespace
}  // namespace fk
