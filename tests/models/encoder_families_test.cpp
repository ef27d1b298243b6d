// What the families of encoders read from config.json and refuse, and models inside larger ones.
#include <gtest/gtest.h>

#include "models/catalog.h"
#include "models/config.h"
#include "models/dummy_weights.h"
#include "models/sentence_pooling.h"
#include "ops/l4/siglip_vision_model.h"
#include "ops/l4/xlm_roberta_model.h"
#include "tests/models/changed_config.h"
#include "tests/models/error_text.h"
#include "tests/models/init_of.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

constexpr const char* kBgeM3Config = R"({
  "architectures": ["XLMRobertaModel"], "attention_probs_dropout_prob": 0.1, "bos_token_id": 0, "eos_token_id": 2,
  "hidden_act": "gelu", "hidden_size": 1024, "intermediate_size": 4096, "layer_norm_eps": 1e-05,
  "max_position_embeddings": 8194, "model_type": "xlm-roberta", "num_attention_heads": 16, "num_hidden_layers": 24,
  "pad_token_id": 1, "position_embedding_type": "absolute", "torch_dtype": "float32", "type_vocab_size": 1,
  "vocab_size": 250002})";

constexpr const char* kSiglip2Config = R"({
  "architectures": ["SiglipModel"], "model_type": "siglip", "torch_dtype": "float32", "text_config": {"vocab_size": 256000},
  "vision_config": {"hidden_act": "gelu_pytorch_tanh", "hidden_size": 768, "image_size": 224, "intermediate_size": 3072,
                    "layer_norm_eps": 1e-06, "model_type": "siglip_vision_model", "num_attention_heads": 12,
                    "num_channels": 3, "num_hidden_layers": 12, "patch_size": 16}})";

TEST(EncoderFamilies, BgeM3IsATextEncoderOfTheCatalog) {
  ModelConfig config = changed(kBgeM3Config, "none", nullptr);
  EXPECT_EQ(config.facts.task, Task::kTextEncoder);
  EXPECT_EQ(config.facts.max_position_embeddings, 8192);  // positions begin behind the padding token
  EXPECT_EQ(config.facts.padding_id, 1);
  EXPECT_TRUE(init_of<XLMRobertaModel>(config).add_pooling_layer);
  config.set_dtype(DType::kBF16);
  EXPECT_EQ(config, find_catalog("bge-m3")->config);
}

TEST(EncoderFamilies, ModelsWithAHeadHaveNoPoolingLayer) {
  ModelConfig config = changed(kBgeM3Config, "architectures", R"(["XLMRobertaForMaskedLM"])");
  EXPECT_FALSE(init_of<XLMRobertaModel>(config).add_pooling_layer);
  EXPECT_EQ(config.architecture(), "XLMRobertaModel");
}

TEST(EncoderFamilies, TheVisionTowerIsFoundInTheConfigOfTheWholeModel) {
  ModelConfig config = changed(kSiglip2Config, "none", nullptr);
  EXPECT_EQ(config.facts.task, Task::kImageEncoder);
  EXPECT_EQ(config.facts.dtype, DType::kF32);
  EXPECT_EQ(config.facts.num_patches(), 196);
  config.set_dtype(DType::kBF16);
  EXPECT_EQ(config, find_catalog("siglip2-base")->config);
  EXPECT_EQ(find_catalog("siglip2-so400m")->config.facts.num_patches(), 729);
  expect_sentence(refusal(kSiglip2Config, "vision_config", nullptr), {"has no vision_config"});
  expect_sentence(refusal(kSiglip2Config, "model_type", "\"siglip2\""), {"contradicts itself"});
  expect_sentence(refusal(kSiglip2Config, "architectures", R"(["Siglip2Model"])"), {"images of any size"});
}

TEST(EncoderFamilies, RefuseWhatTheyDoNotCompute) {
  for (const auto& [key, value, word] : {std::tuple{"hidden_act", "\"mish\"", "'mish'"},
                                         {"num_attention_heads", "15", "multiple"},
                                         {"is_decoder", "true", "is_decoder"},
                                         {"add_cross_attention", "true", "add_cross_attention"},
                                         {"position_embedding_type", "\"relative_key\"", "relative_key"},
                                         {"pad_token_id", "8193", "leaves none"},
                                         {"quantization_config", "{}", "quantized"},
                                         {"torch_dtype", "\"int8\"", "int8"},
                                         {"architectures", "[\"XLMRobertaForCausalLM\"]", "not supported"}})
    expect_sentence(refusal(kBgeM3Config, key, value), {word});
  expect_sentence(refusal(kSiglip2Config, "quantization_config", R"({"quant_method":"fp8"})"), {"quantized"});
}

TEST(EncoderFamilies, NeedNotBeCausal) {
  EXPECT_EQ(changed(kBgeM3Config, "is_causal", "false"), changed(kBgeM3Config, "none", nullptr));
}

TEST(EncoderFamilies, AreRunByTheirOwnVerb) {
  ModelConfig config = find_catalog("tiny-xlm-roberta")->config;
  expect_sentence(error_of([&] { config.require_task(Task::kCausalLM, "tiny-xlm-roberta", "generate"); }),
                  {"tiny-xlm-roberta is a text encoder", "generate needs a language model", "fastkernels encode"});
  EXPECT_EQ(error_of([&] { config.require_task(Task::kTextEncoder, "x", "encode"); }), "(no error)");
  config.set_ranks(1, true);
  expect_sentence(error_of([&] { config.set_ranks(2, true); }), {"XLMRobertaModel", "tp_size"});
}

TEST(EncoderFamilies, DummyWeightsFitTheirKindOfTensor) {
  EXPECT_EQ(dummy_range("encoder.layer.0.output.LayerNorm.weight", {8}, 1).offset, 1);
  EXPECT_EQ(dummy_range("encoder.layer.0.output.LayerNorm.bias", {8}, 1).offset, 0);
  EXPECT_EQ(dummy_range("head.probe", {1, 1, 64}, 1).scale, 1);
  EXPECT_EQ(dummy_range("embeddings.patch_embedding.weight", {64, 3, 4, 4}, 1).scale, 0.25F);  // sqrt(3 / 48)
}

TEST(EncoderFamilies, SentenceTransformersSayHowTheyPool) {
  TempDirectory folder;
  EXPECT_EQ(read_sentence_pooling(folder.path()), std::nullopt);
  folder.write("1_Pooling/config.json", R"({"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true})");
  EXPECT_EQ(read_sentence_pooling(folder.path()), "mean");
  folder.write("1_Pooling/config.json", R"({"pooling_mode_max_tokens": true})");
  expect_sentence(error_of([&] { read_sentence_pooling(folder.path()); }), {"--pooling"});
}

}  // namespace
}  // namespace fk
