// A quantised Hugging Face checkpoint gives the logits of the same model whose weights are the dequantised ones: names,
// lists of modules that are not quantised, stacked projections and every format; and broken ones are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/rng.h"
#include "engine/model_executor.h"
#include "models/safetensors_writer.h"
#include "ops/formats/scaled_format.h"
#include "ops/materialize.h"
#include "tests/engine/allocation_count.h"
#include "tests/engine/logits_of_model.h"
#include "tests/models/error_text.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

constexpr int64_t kHidden = 128, kHeads = 4, kKvHeads = 2, kHeadDim = 32, kFfn = 256, kVocab = 96, kLayers = 2,
                  kNumExperts = 4;

struct Method {
  const char* label;
  const char* format;
  const char* config;      // quantization_config
  const char* plain = "";  // the end of names of modules that are not quantised, beside lm_head
};

const Method kMethods[] = {
    {"fp8", "fp8_block",
     R"({"quant_method":"fp8","weight_block_size":[128,128],"modules_to_not_convert":["lm_head"]})"},
    {"fp8_tensor", "fp8_tensor",
     R"({"quant_method":"fp8","activation_scheme":"static","modules_to_not_convert":["lm_head","model.layers.1.mlp"]})",
     "1.mlp."},
    {"gptq", "int4_gptq_g64", R"({"quant_method":"gptq","bits":4,"group_size":64,"desc_act":false})"},
    {"gptq_v2", "int4_gptq_v2",
     R"({"quant_method":"gptq","bits":4,"group_size":-1,"checkpoint_format":"gptq_v2","desc_act":false})"},
    {"awq", "int4_awq_g32",
     R"({"quant_method":"awq","bits":4,"group_size":32,"version":"gemm","modules_to_not_convert":["down_proj"]})",
     ".down_proj."},
    {"w4a16", "int4_packed_g32",
     R"({"quant_method":"compressed-tensors","format":"pack-quantized","ignore":["lm_head"],"config_groups":{"group_0":
        {"targets":["Linear"],"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":32}}}})"},
    {"w4a16_asym", "int4_packed_asym_g64",
     R"({"quant_method":"compressed-tensors","format":"pack-quantized","ignore":["re:.*lm_head"],"config_groups":{"a":
        {"targets":["Linear"],"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":64,"symmetric":false}}}})"},
    {"w8a8", "int8_channel",
     R"({"quant_method":"compressed-tensors","format":"int-quantized","ignore":["lm_head"],"config_groups":{"group_0":
        {"targets":["re:.*self_attn.*","re:.*mlp.*"],"weights":{"num_bits":8,"type":"int","strategy":"channel"},
        "input_activations":{"num_bits":8,"type":"int","strategy":"token","dynamic":true}}}})"},
    {"fp8_dynamic", "fp8_channel",
     R"({"quant_method":"compressed-tensors","format":"float-quantized","ignore":["lm_head"],"config_groups":{"group_0":
        {"targets":["Linear"],"weights":{"num_bits":8,"type":"float","strategy":"channel"}}}})"},
    {"fp8_blocks", "fp8_block_scale",
     R"({"quant_method":"compressed-tensors","format":"float-quantized","ignore":["lm_head"],"config_groups":{"group_0":
        {"targets":["Linear"],"weights":{"num_bits":8,"type":"float","strategy":"block","block_structure":[128,128]}}}})"},
    {"nvfp4", "nvfp4",
     R"({"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized","ignore":["lm_head"],"config_groups":{"g":
        {"targets":["Linear"],"weights":{"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16}}}})"},
};
void PrintTo(const Method& method, std::ostream* out) { *out << method.label; }

// Products of the first take quantised matrices; those of the others do not, so they are dequantised when loaded.
enum class Kind : uint8_t { kDense, kExperts, kStacked };

// The same model twice: quantised, and with the dequantised weights.
class Twins {
 public:
  explicit Twins(const Method& method, Kind kind = Kind::kDense)
      : method_(method), kind_(kind), format_(scaled_format(method.format)) {
    plain("model.embed_tokens.weight", {kVocab, kHidden});
    plain("lm_head.weight", {kVocab, kHidden});
    plain("model.norm.weight", {kHidden});
    for (int64_t i = 0; i < kLayers; ++i) {
      std::string layer = "model.layers." + std::to_string(i) + ".";
      plain(layer + "input_layernorm.weight", {kHidden});
      plain(layer + "post_attention_layernorm.weight", {kHidden});
      matrix(layer + "self_attn.o_proj.", kHidden, kHeads * kHeadDim);
      if (kind == Kind::kStacked) {
        matrix(layer + "self_attn.qkv_proj.", (kHeads + 2 * kKvHeads) * kHeadDim, kHidden);
        matrix(layer + "mlp.gate_up_proj.", 2 * kFfn, kHidden);
        matrix(layer + "mlp.down_proj.", kHidden, kFfn);
        continue;
      }
      matrix(layer + "self_attn.q_proj.", kHeads * kHeadDim, kHidden);
      matrix(layer + "self_attn.k_proj.", kKvHeads * kHeadDim, kHidden);
      matrix(layer + "self_attn.v_proj.", kKvHeads * kHeadDim, kHidden);
      if (kind == Kind::kDense) {
        feed_forward(layer + "mlp.");
        continue;
      }
      plain(layer + "self_attn.q_norm.weight", {kHeadDim});
      plain(layer + "self_attn.k_norm.weight", {kHeadDim});
      plain(layer + "mlp.gate.weight", {kNumExperts, kHidden});  // routers are not quantised, whatever the config says
      for (int64_t e = 0; e < kNumExperts; ++e) feed_forward(layer + "mlp.experts." + std::to_string(e) + ".");
    }
  }

  // Writes both; `quantised` may be changed before.
  void write(const std::string& quantization_config) {
    constexpr const char* kFamily[] = {
        "\"LlamaForCausalLM\"],\"model_type\":\"llama\"",
        "\"Qwen3MoeForCausalLM\"],\"model_type\":\"qwen3_moe\",\"num_experts\":4,\"num_experts_per_tok\":2,"
        "\"moe_intermediate_size\":256,\"norm_topk_prob\":true",
        "\"Phi3ForCausalLM\"],\"model_type\":\"phi3\",\"pad_token_id\":0"};
    std::string config =
        std::string("{\"architectures\":[") + kFamily[static_cast<size_t>(kind_)] +
        ",\"hidden_size\":128,"
        "\"intermediate_size\":256,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
        "\"head_dim\":32,\"vocab_size\":96,\"max_position_embeddings\":128,\"rms_norm_eps\":1e-5,"
        "\"rope_theta\":10000,\"torch_dtype\":\"float32\"";
    directory_.write("plain/config.json", config + "}");
    directory_.write("quantised/config.json", config + ",\"quantization_config\":" + quantization_config + "}");
    store(plain_path(), exact);
    store(quantised_path(), quantised);
  }
  std::string plain_path() const { return directory_.path() + "/plain"; }
  std::string quantised_path() const { return directory_.path() + "/quantised"; }

  std::map<std::string, Tensor> exact, quantised;

 private:
  static void store(const std::string& path, const std::map<std::string, Tensor>& tensors) {
    std::vector<std::pair<std::string, View>> views;
    for (const auto& [name, tensor] : tensors) views.emplace_back(name, tensor.view());
    write_safetensors(path + "/model.safetensors", views);
  }

  Tensor numbers(const std::string& name, const Shape& shape) {
    Tensor values(shape, DType::kF32);
    Stream stream(3, name);
    double deviation = shape.rank() == 1 ? 0.2 : 1 / std::sqrt(static_cast<double>(shape[1]));
    for (int64_t i = 0; i < shape.numel(); ++i)
      values.ptr<float>()[i] =
          static_cast<float>((shape.rank() == 1 ? 1 : 0) + deviation * stream.normal(static_cast<uint64_t>(i)));
    return values;
  }

  void plain(const std::string& name, const Shape& shape) {
    exact.emplace(name, numbers(name, shape));
    quantised.emplace(name, numbers(name, shape));
  }

  void feed_forward(const std::string& path) {
    matrix(path + "gate_proj.", kFfn, kHidden);
    matrix(path + "up_proj.", kFfn, kHidden);
    matrix(path + "down_proj.", kHidden, kFfn);
  }

  void matrix(const std::string& path, int64_t rows, int64_t columns) {
    if (*method_.plain != '\0' && path.find(method_.plain) != std::string::npos)
      return plain(path + "weight", {rows, columns});
    std::vector<View> views;
    for (const ParamSpec& spec : format_.tensors(rows, columns)) {
      auto at = quantised.emplace(path + spec.name, Tensor(spec.spec)).first;
      fill(at->second, *spec.fill, 7, path + spec.name, BatchMetadata(Workload{}, 7));
      views.push_back(at->second.view());
    }
    Tensor values({rows, columns}, DType::kF32);
    for (int64_t r = 0; r < rows; ++r)
      format_.dequantise(views, r, {values.ptr<float>() + r * columns, static_cast<size_t>(columns)});
    exact.emplace(path + "weight", std::move(values));
  }

  const Method& method_;
  Kind kind_;
  const ScaledFormat& format_;
  TempDirectory directory_;
};

class QuantisedModel : public testing::TestWithParam<Method> {};

TEST_P(QuantisedModel, HasTheLogitsOfItsDequantisedWeights) {
  Twins twins(GetParam());
  twins.write(GetParam().config);
  std::vector<float> quantised = logits_of_model(twins.quantised_path()), plain = logits_of_model(twins.plain_path());
  ASSERT_EQ(quantised.size(), plain.size());
  double squares = 0, errors = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    squares += static_cast<double>(plain[i]) * plain[i];
    errors += std::pow(static_cast<double>(plain[i]) - quantised[i], 2);
  }
  // Activations of 8 bits are off by 0.6 % before each of the 15 products; a wrong row, name or scale is off by 100 %.
  EXPECT_LT(std::sqrt(errors / squares), 0.03);
  EXPECT_GT(squares, 0);
}

// Bit by bit: products are those of the plain model.
TEST_P(QuantisedModel, IsDequantisedWhereProductsTakeElements) {
  for (Kind kind : {Kind::kExperts, Kind::kStacked}) {
    Twins twins(GetParam(), kind);
    twins.write(GetParam().config);
    const std::vector<float> logits = logits_of_model(twins.quantised_path());
    EXPECT_EQ(logits, logits_of_model(twins.plain_path())) << static_cast<int>(kind);
    EXPECT_TRUE(std::any_of(logits.begin(), logits.end(), [](float x) { return x != 0; }));
  }
}

TEST_P(QuantisedModel, DecodesWithDummyWeightsAndAllocatesNothing) {
  Twins twins(GetParam());
  twins.write(GetParam().config);
  ThreadPool pool(2);
  Model model =
      load_model(resolve_model(twins.quantised_path()), {.format = LoadFormat::kDummy, .dtype = DType::kBF16}, pool);
  ModelExecutor executor(model, pool, {.max_sequences = 1, .max_context = 64});
  RunningSequence sequence = executor.start();
  const std::vector<int64_t> prompt{1, 2, 3, 4, 5, 6, 7};
  executor.prefill(sequence, prompt);
  int64_t next = 42;
  const NewTokens item{&sequence, {&next, 1}};
  for (int i = 0; i < 3; ++i) executor.forward({&item, 1});
  int64_t before = allocation_count();
  View logits;
  for (int i = 0; i < 10; ++i) logits = executor.forward({&item, 1});
  EXPECT_EQ(allocation_count() - before, 0);
  double squares = 0;
  for (int64_t i = 0; i < kVocab; ++i) squares += std::pow(logits.ptr<float>()[i], 2);
  EXPECT_TRUE(std::isfinite(squares));
  EXPECT_GT(squares, 0.01 * kVocab);  // numbers of the size that logits of dummy weights have
  EXPECT_LT(squares, 100.0 * kVocab);
}

INSTANTIATE_TEST_SUITE_P(Methods, QuantisedModel, testing::ValuesIn(kMethods),
                         [](const auto& p) { return std::string(p.param.label); });

std::string refusal_of(Twins& twins, const std::string& config) {
  twins.write(config);
  ThreadPool pool(1);
  return error_of([&] { load_model(resolve_model(twins.quantised_path()), {.dtype = DType::kF32}, pool); });
}

constexpr const char* kUp = "model.layers.0.mlp.up_proj.";

TEST(QuantisedCheckpoint, TensorsThatDoNotFitAreRefused) {
  const Method& fp8 = kMethods[0];
  Twins missing(fp8);
  missing.quantised.erase(std::string(kUp) + "weight_scale_inv");
  expect_sentence(refusal_of(missing, fp8.config), {"lacks", "up_proj.weight_scale_inv"});

  Twins shape(fp8);
  shape.quantised.at(std::string(kUp) + "weight_scale_inv") = Tensor({3, 1}, DType::kF32);
  expect_sentence(refusal_of(shape, fp8.config), {"up_proj.weight_scale_inv", "[3, 1]", "[2, 1]"});

  Twins dtype(fp8);
  dtype.quantised.at(std::string(kUp) + "weight") = Tensor({kFfn, kHidden}, DType::kI8);
  expect_sentence(refusal_of(dtype, fp8.config), {"up_proj.weight", "i8", "f8e4m3"});

  Twins extra(fp8);
  extra.quantised.emplace(std::string(kUp) + "g_scale", Tensor({1}, DType::kF32));
  expect_sentence(refusal_of(extra, fp8.config), {"no place for", "g_scale"});

  Twins group(kMethods[2]);
  expect_sentence(refusal_of(group, R"({"quant_method":"gptq","bits":4,"group_size":100})"), {"100", "128"});
  expect_sentence(refusal_of(group, R"({"quant_method":"gptq","bits":4,"group_size":32})"), {"has shape"});
}

TEST(QuantisedCheckpoint, TensorsOfExpertsThatDoNotFitAreRefused) {
  const Method& fp8 = kMethods[0];
  const std::string up = "model.layers.1.mlp.experts.2.up_proj.";
  Twins missing(fp8, Kind::kExperts);
  missing.quantised.erase(up + "weight_scale_inv");
  expect_sentence(refusal_of(missing, fp8.config), {"lacks", "experts.2.up_proj.weight_scale_inv"});

  Twins shape(fp8, Kind::kExperts);
  shape.quantised.at(up + "weight_scale_inv") = Tensor({1, 1}, DType::kF32);
  expect_sentence(refusal_of(shape, fp8.config), {"experts.2.up_proj.weight_scale_inv", "[1, 1]", "[2, 1]"});

  Twins no_router(kMethods[2], Kind::kExperts);
  no_router.quantised.erase("model.layers.1.mlp.gate.weight");
  expect_sentence(refusal_of(no_router, kMethods[2].config), {"lacks", "'model.layers.1.mlp.gate.weight'"});

  Twins plain(fp8, Kind::kExperts);
  expect_sentence(refusal_of(plain, R"({"quant_method":"fp8"})"), {"experts.0", "weight_scale"});
}

// Products may not keep it. Matrices with a product of their own, and those that are copied into a stacked one.
TEST(QuantisedCheckpoint, AnFp8CodeThatIsNaNIsRefused) {
  for (const Method& method : {kMethods[0], kMethods[1], kMethods[8]})
    for (const char* matrix : {"model.layers.0.mlp.up_proj.weight", "model.layers.0.self_attn.v_proj.weight"})
      for (int code : {0x7f, 0xff}) {
        Twins twins(method);
        const View weight = twins.quantised.at(matrix).view();
        static_cast<uint8_t*>(weight.data())[weight.numel() - 1] = static_cast<uint8_t>(code);
        expect_sentence(refusal_of(twins, method.config), {matrix, "holds a NaN"});
      }
}

TEST(QuantisedCheckpoint, ColumnsInAnotherOrderAreRefused) {
  const Method& gptq = kMethods[2];
  Twins twins(gptq);
  Tensor order({kHidden}, DType::kI32);
  for (int64_t i = 0; i < kHidden; ++i) order.ptr<int32_t>()[i] = static_cast<int32_t>(i / 64);
  auto at = twins.quantised.emplace(std::string(kUp) + "g_idx", std::move(order)).first;
  EXPECT_EQ(refusal_of(twins, gptq.config), "(no error)");
  at->second.ptr<int32_t>()[5] = 1;
  expect_sentence(refusal_of(twins, gptq.config), {"g_idx", "desc_act"});

  Tensor wide({1, kHidden}, DType::kI64);
  for (int64_t i = 0; i < kHidden; ++i) wide.ptr<int64_t>()[i] = i / 64;
  at->second = std::move(wide);
  EXPECT_EQ(refusal_of(twins, gptq.config), "(no error)");
  at->second.ptr<int64_t>()[kHidden - 1] = 0;
  expect_sentence(refusal_of(twins, gptq.config), {"g_idx", "desc_act"});
}

TEST(QuantisedDummies, AreThoseOfACheckpointWithThatFormat) {
  Twins twins(kMethods[0]);
  twins.write(kMethods[0].config);
  ThreadPool pool(1);
  auto dummies = [&](const std::string& path, const std::string& quantization) {
    return load_model(resolve_model(path), {.format = LoadFormat::kDummy, .quantization = quantization}, pool);
  };
  auto bytes = [&](const Model& model) {
    const View codes = model.weights.get("model.layers.0.self_attn.o_proj.weight");
    return std::string(static_cast<const char*>(codes.data()), codes.size_bytes());
  };
  Model asked = dummies(twins.plain_path(), "fp8_block");
  EXPECT_EQ(bytes(asked), bytes(dummies(twins.quantised_path(), "")));
  EXPECT_EQ(bytes(asked).size(), static_cast<size_t>(kHidden * kHeads * kHeadDim)) << "a byte for each element";
  expect_sentence(error_of([&] { load_model(resolve_model(twins.plain_path()), {.quantization = "fp8"}, pool); }),
                  {"--quantization", "--load-format dummy"});
}

TEST(QuantisedCheckpoint, ScalesMayHaveOtherShapesAndDtypes) {
  const Method& fp8 = kMethods[1];
  Twins twins(fp8);
  twins.quantised.at("model.layers.0.mlp.up_proj.weight_scale") = Tensor({1, 1}, DType::kBF16);
  twins.quantised.emplace(std::string(kUp) + "input_scale", Tensor({1}, DType::kF32));
  EXPECT_EQ(refusal_of(twins, fp8.config), "(no error)");
}

}  // namespace
}  // namespace fk
