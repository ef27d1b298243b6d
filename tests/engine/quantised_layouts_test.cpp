// Quantised checkpoints as different programs lay them out: names, prefixes, experts, scales, lists of modules, layers
// that predict further tokens; and those that are refused, each by one sentence.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/engine/quantised_configs.h"
#include "tests/engine/quantised_twins.h"
#include "tests/models/error_text.h"

namespace fk {
namespace {

std::string refusal_of(const QuantisedTwins& twins, DType dtype = DType::kF32) {
  return error_of([&] { logits_of_model(twins.quantised_path(), dtype); });
}

// model.layers... as model.language_model.layers...; the head has no prefix.
std::string in_language_model(const std::string& name) {
  constexpr std::string_view kModel = "model.";
  return name.starts_with(kModel) ? "model.language_model." + name.substr(kModel.size()) : name;
}

Json conditional(const Json& text, const char* architecture, const char* model_type) {
  return {{"architectures", {architecture}}, {"model_type", model_type}, {"dtype", "float32"}, {"text_config", text}};
}

TEST(QuantisedLayout, OfGemma4HasAPrefixAndATowerThatIsNotUsed) {
  QuantisedTwins twins(kGemma4, all_in("fp8_channel"));
  twins.rename(in_language_model);
  twins.quantised.emplace("model.vision_tower.encoder.weight", Tensor({4, 4}, DType::kBF16));
  twins.quantised.emplace("model.embed_vision.embedding_projection.weight_scale", Tensor({4, 1}, DType::kBF16));
  twins.write(channel_config());
  Json config = conditional(twins.config(), "Gemma4ForConditionalGeneration", "gemma4");
  config["text_config"].erase("architectures");
  const Json quantization = parse_json(channel_config(), "a test");
  config["quantization_config"] = quantization;
  config["quantization_config"]["ignore"] = {"lm_head", "re:.*vision_tower.*", "re:.*embed_vision.*"};
  twins.write_quantised(config);
  expect_same(twins);
  // Some programs write it for the part.
  config.erase("quantization_config");
  config["text_config"]["quantization_config"] = quantization;
  twins.write_quantised(config);
  expect_same(twins);
  config["text_config"].erase("quantization_config");
  for (const char* method : {"modelopt", "bitsandbytes", ""}) {
    config["quantization_config"] = {{"quant_method", method}};
    twins.write_quantised(config);
    expect_sentence(refusal_of(twins), {"quant_method", method, "compressed-tensors"});
  }
}

// [experts, rows, columns] of the plain twin from the experts one by one, in this format.
void quantise_experts(QuantisedTwins& twins, const std::string& layer, const std::string& block, const char* format,
                      bool transposed) {
  for (const char* matrix : {"gate_up_proj", "down_proj"}) {
    const std::string whole = layer + "experts." + matrix;
    Tensor& values = twins.plain.at(whole);
    twins.quantised.erase(whole);
    const bool two = matrix == std::string("gate_up_proj");
    const int64_t rows = values.view().size(transposed ? 2 : 1), columns = values.view().size(transposed ? 1 : 2);
    std::vector<std::string> parts{"down_proj"};
    if (two) parts = {"gate_proj", "up_proj"};
    const int64_t part_rows = rows / static_cast<int64_t>(parts.size());
    for (int64_t e = 0; e < values.view().size(0); ++e)
      for (size_t p = 0; p < parts.size(); ++p) {
        Tensor part = twins.quantised_matrix(layer + block + "experts." + std::to_string(e) + "." + parts[p], format,
                                             part_rows, columns);
        for (int64_t r = 0; r < part_rows; ++r)
          for (int64_t k = 0; k < columns; ++k) {
            const int64_t row = static_cast<int64_t>(p) * part_rows + r;
            values.ptr<float>()[e * rows * columns + (transposed ? k * rows + row : row * columns + k)] =
                part.ptr<float>()[r * columns + k];
          }
      }
  }
}

TEST(QuantisedLayout, OfGemma4MayHaveItsExpertsOneByOne) {
  for (const char* block : {"", "moe."})
    for (const char* format : {"nvfp4", "int4_packed_g32"}) {
      QuantisedTwins twins(kGemma4, all_in(format));
      for (const char* layer : {"model.layers.0.", "model.layers.1."})
        quantise_experts(twins, layer, block, format, false);
      twins.rename(in_language_model);
      twins.write(format[0] == 'n' ? nvfp4_config() : packed_config());
      SCOPED_TRACE(std::string(block) + format);
      expect_same(twins);
      twins.quantised.erase("model.language_model.layers.1." + std::string(block) + "experts.3.up_proj.weight_packed");
      twins.write(format[0] == 'n' ? nvfp4_config() : packed_config());
      expect_sentence(refusal_of(twins), {"lacks", "experts.3.up_proj.weight"});
    }
}

TEST(QuantisedLayout, OfLlama4MayHaveItsExpertsOneByOne) {
  QuantisedTwins twins(kLlama4, all_in("fp8_channel"));
  for (const char* layer : {"model.layers.0.feed_forward.", "model.layers.1.feed_forward."})
    quantise_experts(twins, layer, "", "fp8_channel", true);
  twins.rename([](const std::string& name) { return "language_model." + name; });
  twins.quantised.emplace("vision_model.patch_embedding.linear.weight", Tensor({4, 4}, DType::kBF16));
  twins.write(channel_config());
  Json config = conditional(twins.config(), "Llama4ForConditionalGeneration", "llama4");
  config["quantization_config"] = parse_json(channel_config(), "a test");
  config["quantization_config"]["ignore"] = {"re:.*lm_head", "re:.*router", "re:vision_model.*"};
  twins.write_quantised(config);
  expect_same(twins);
}

// Rows of gate and up alternate in gate_up_proj of gpt-oss, as their biases do; experts one by one would be read as two
// halves.
TEST(QuantisedLayout, OfGptOssHasItsExpertsTogether) {
  QuantisedTwins twins(kGptOss, [](const std::string&) { return std::string(); });
  twins.write_quantised(twins.config());
  EXPECT_EQ(refusal_of(twins), "(no error)");
  const std::string experts = "model.layers.0.mlp.experts.";
  ASSERT_EQ(twins.quantised.erase(experts + "gate_up_proj"), 1u);
  for (int e = 0; e < 4; ++e)
    for (const char* part : {".gate_proj.weight", ".up_proj.weight"})
      twins.quantised.emplace(experts + std::to_string(e) + part, Tensor({64, 160}, DType::kF32));
  twins.write_quantised(twins.config());
  expect_sentence(refusal_of(twins), {"lacks", "'model.layers.0.mlp.experts.gate_up_proj'"});
}

// All experts as one tensor of codes and one of scales: what is a matrix of rows for one expert is one for all.
void quantise_experts_together(QuantisedTwins& twins, const char* format) {
  for (int layer = 0; layer < 2; ++layer)
    for (const char* matrix : {"gate_up_proj", "down_proj"}) {
      const std::string name = "model.layers." + std::to_string(layer) + ".experts." + matrix;
      Tensor& whole = twins.plain.at(name);
      const Shape shape = whole.view().shape();
      Tensor values = twins.quantised_matrix("x", format, shape[0] * shape[1], shape[2]);
      std::copy(values.ptr<float>(), values.ptr<float>() + shape.numel(), whole.ptr<float>());
      twins.quantised.erase(name);
      for (const char* end : {"", "_packed", "_scale"}) {
        auto found = twins.quantised.find(std::string("x.weight") + end);
        if (found == twins.quantised.end()) continue;
        const View from = found->second.view();
        Tensor together({shape[0], shape[1], from.size(1)}, from.dtype());
        std::memcpy(together.view().data(), from.data(), from.size_bytes());
        twins.quantised.emplace(name + end, std::move(together));
        twins.quantised.erase(found);
      }
      twins.quantised.emplace(name + "_shape", Tensor({3}, DType::kI64));
    }
}

TEST(QuantisedLayout, OfGemma4MayHaveItsExpertsTogether) {
  QuantisedTwins channels(kGemma4, all_in("fp8_channel")), bytes(kGemma4, all_in("int8_channel"));
  quantise_experts_together(channels, "fp8_channel");
  channels.write(channel_config());
  expect_same(channels);
  quantise_experts_together(bytes, "int8_channel");
  bytes.write(compressed("int-quantized", R"({"num_bits":8,"type":"int","strategy":"channel"})"));
  expect_same(bytes);

  QuantisedTwins twins(kGemma4, all_in("int4_packed_g32"));
  quantise_experts_together(twins, "int4_packed_g32");
  twins.write(packed_config());
  expect_same(twins);

  Tensor& scales = twins.quantised.at("model.layers.1.experts.down_proj_scale");
  scales = Tensor({4, 160, 3}, DType::kF32);
  twins.write(packed_config());
  expect_sentence(refusal_of(twins), {"experts.down_proj_scale", "[4, 160, 3]", "[4, 160, 2]"});
  // One scale for a whole matrix cannot be told from one for all experts.
  twins.write(nvfp4_config());
  expect_sentence(refusal_of(twins), {"experts.gate_up_proj", "row by row", "each expert by itself"});
}

TEST(QuantisedLayout, OfQwen3NextIsThePublishedOne) {
  QuantisedTwins twins(kQwen3Next, all_in("fp8_block")), rounded(kQwen3Next, all_in("fp8_block"));
  // Scales are bf16 there.
  for (auto& [name, tensor] : twins.quantised) {
    if (!name.ends_with("weight_scale_inv")) continue;
    Tensor scales(tensor.view().shape(), DType::kBF16);
    Tensor& same = rounded.quantised.at(name);
    for (int64_t i = 0; i < scales.view().numel(); ++i) {
      scales.ptr<bf16>()[i] = bf16(tensor.ptr<float>()[i]);
      same.ptr<float>()[i] = static_cast<float>(scales.ptr<bf16>()[i]);
    }
    tensor = std::move(scales);
  }
  Json quantization = parse_json(kBlockConfig, "a test");
  Json& list = quantization["modules_to_not_convert"] = {"lm_head", "model.embed_tokens", "mtp.fc"};
  for (int i = 0; i < 2; ++i)
    for (const char* module : {"input_layernorm", "linear_attn.conv1d", "linear_attn.in_proj_ba", "mlp.gate",
                               "mlp.shared_expert_gate", "self_attn.q_norm"})
      list.push_back("model.layers." + std::to_string(i) + "." + module);
  twins.quantised.emplace("mtp.fc.weight", Tensor({8, 8}, DType::kBF16));
  twins.quantised.emplace("mtp.layers.0.mlp.experts.0.up_proj.weight", Tensor({8, 8}, DType::kF8E4M3));
  twins.quantised.emplace("mtp.layers.0.mlp.experts.0.up_proj.weight_scale_inv", Tensor({1, 1}, DType::kBF16));
  twins.write(quantization.dump());
  rounded.write(kBlockConfig);
  EXPECT_EQ(logits_of_model(twins.quantised_path()), logits_of_model(rounded.quantised_path()));

  const std::string qkvz = "model.layers.0.linear_attn.in_proj_qkvz.weight_scale_inv";
  twins.quantised.at(qkvz) = Tensor({1, 2}, DType::kBF16);
  twins.write(quantization.dump());
  expect_sentence(refusal_of(twins), {"in_proj_qkvz.weight_scale_inv", "[1, 2]", "[3, 2]"});
  twins.quantised.erase(qkvz);
  twins.write(quantization.dump());
  expect_sentence(refusal_of(twins), {"lacks", "in_proj_qkvz.weight_scale_inv"});
}

// Layers that predict further tokens come after the last one, quantised or not, in whatever order their columns are.
TEST(QuantisedLayout, MayHavePredictingLayers) {
  for (const char* layer : {"model.layers.2.", "model.layers.61."}) {
    QuantisedTwins twins(kDeepseekV3, all_in("int4_gptq_g32"));
    for (const char* name : {"eh_proj.weight", "enorm.weight", "mlp.experts.0.up_proj.qweight"})
      twins.quantised.emplace(layer + std::string(name), Tensor({8, 8}, DType::kI32));
    twins.quantised.emplace(layer + std::string("mlp.experts.0.up_proj.scales"), Tensor({2, 8}, DType::kF16));
    Tensor order({4}, DType::kI32);
    for (int i = 0; i < 4; ++i) order.ptr<int32_t>()[i] = 1 - i % 2;
    twins.quantised.emplace(layer + std::string("mlp.experts.0.up_proj.g_idx"), std::move(order));
    twins.write(kGptqConfig);
    SCOPED_TRACE(layer);
    expect_same(twins);
  }
  QuantisedTwins twins(kDeepseekV3, all_in("int4_gptq_g32"));
  twins.quantised.emplace("model.layers.3.eh_proj.weight", Tensor({8, 8}, DType::kF32));
  twins.write(kGptqConfig);
  expect_sentence(refusal_of(twins), {"no place for", "model.layers.3.eh_proj.weight"});
}

TEST(QuantisedLayout, ModulesAreLeftOutByExpressions) {
  auto without_attention = [](const std::string& format) {
    return [format](const std::string& path) {
      return stays_plain(path) || path.find("self_attn") != std::string::npos ? std::string() : format;
    };
  };
  QuantisedTwins packed(kKimiLinear, without_attention("int4_packed_g32"));
  packed.write(packed_config(
      R"(["lm_head","re:.*self_attn\\.(q|k|v|o|f_a|g_a|b)_proj$","re:^model\\.layers\\.\\d+\\.block_sparse_moe\\.gate$"])"));
  expect_same(packed);
  QuantisedTwins gptq(kQwen3Moe, without_attention("int4_gptq_g32"));
  gptq.write(R"({"quant_method":"gptq","bits":4,"group_size":32,"dynamic":{"-:.*self_attn.*":{},"-:.*\\.gate$":{}}})");
  expect_same(gptq);
  // An expression that leaves out what is quantised.
  packed.write(packed_config(R"(["re:.*experts.*"])"));
  expect_sentence(refusal_of(packed), {"lacks", "experts.0.w1.weight"});
  packed.write(packed_config(R"(["re:(["])"));
  expect_sentence(refusal_of(packed), {"ignore", "'re:(['", "not a regular expression"});
}

// Formats that differ from module to module.
TEST(QuantisedLayout, GroupsHaveFormatsOfTheirOwn) {
  QuantisedTwins twins(kQwen3Moe, [](const std::string& path) {
    if (stays_plain(path)) return "";
    return path.find("experts") != std::string::npos ? "nvfp4" : "fp8_channel";
  });
  twins.write(R"({"quant_method":"compressed-tensors","format":"mixed-precision","ignore":["lm_head","re:.*mlp.gate$"],
    "config_groups":{"group_0":{"format":"float-quantized","targets":["re:.*self_attn.*"],"weights":{"num_bits":8,
    "type":"float","strategy":"channel","symmetric":true}},"group_1":{"format":"nvfp4-pack-quantized",
    "targets":["re:.*mlp.experts.*"],"weights":{"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16,
    "symmetric":true}}}})");
  expect_same(twins);
}

}  // namespace
}  // namespace fk
