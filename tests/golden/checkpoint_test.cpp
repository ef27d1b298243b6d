// A checkpoint on disk in the layout of transformers gives the logits of transformers: names, packing, tying, shards
// and dtypes all take part.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/memory.h"
#include "models/config.h"
#include "models/dummy_weights.h"
#include "models/family.h"
#include "ops/formats/scaled_format.h"
#include "ops/formats/weight_format.h"
#include "tests/core/on_ranks.h"
#include "tests/golden/golden_model.h"

namespace fk::golden {
namespace {

namespace fs = std::filesystem;

class Directory {
 public:
  explicit Directory(const std::string& name) : path_(fs::path(testing::TempDir()) / ("fk_checkpoint_" + name)) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Directory() { fs::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ / name; }
  std::string path() const { return path_; }

 private:
  fs::path path_;
};

void write_safetensors(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors) {
  Json header = Json::object();
  size_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    const View& v = tensor.view();
    header[name] = {{"dtype", v.dtype() == DType::kF32  ? "F32"
                              : v.dtype() == DType::kU8 ? "U8"
                                                        : "BF16"},
                    {"shape", std::vector<int64_t>(v.shape().extents().begin(), v.shape().extents().end())},
                    {"data_offsets", {at, at + v.size_bytes()}}};
    at += v.size_bytes();
  }
  std::string text = header.dump();
  uint64_t length = text.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << text;
  for (const auto& [name, tensor] : tensors)
    file.write(static_cast<const char*>(tensor.view().data()),
               static_cast<std::streamsize>(tensor.view().size_bytes()));
}

// Experts [E, N, K] in MXFP4 as the two tensors of a checkpoint of gpt-oss: 16 bytes of each block, two elements to a
// byte in order, and its exponent.
std::pair<Tensor, Tensor> mxfp4_tensors(const Shape& shape, uint64_t seed, const std::string& name, ThreadPool& pool) {
  const WeightFormat& format = weight_format("mxfp4");
  int64_t rows = shape[0] * shape[1], blocks = shape[2] / format.block_elements;
  Tensor packed({rows, format.row_bytes(shape[2])}, DType::kU8);
  fill_dummy_format(packed, format, seed, name, pool);
  Tensor elements({shape[0], shape[1], blocks, 16}, DType::kU8), scales({shape[0], shape[1], blocks}, DType::kU8);
  const auto* from = packed.view().ptr<uint8_t>();
  for (int64_t i = 0; i < rows * blocks; ++i, from += format.block_bytes) {
    scales.view().ptr<uint8_t>()[i] = from[0];
    auto code = [&](int64_t j) { return j < 16 ? from[1 + j] & 15 : from[1 + j - 16] >> 4; };
    for (int64_t j = 0; j < 16; ++j)
      elements.view().ptr<uint8_t>()[i * 16 + j] = static_cast<uint8_t>(code(2 * j) | code(2 * j + 1) << 4);
  }
  return {std::move(elements), std::move(scales)};
}

// The two tensors of a ternary matrix, `weight` and `weight_scale`; the first has four rows in each of its own.
std::vector<Tensor> ternary_tensors(const Json& golden, const std::string& name, ThreadPool& pool) {
  bool divides = golden.at("config").at("quantization_config").at("linear_class") == "bitlinear";
  Shape shape(golden.at("tensors").at(name).get<std::vector<int64_t>>());
  std::vector<Tensor> tensors;
  for (const ParamSpec& param :
       scaled_format(divides ? "ternary_inverse" : "ternary").tensors(4 * shape[0], shape[1])) {
    Tensor& tensor = tensors.emplace_back(param.spec.shape, param.spec.dtype);
    fill_dummy_tensor(tensor, *param.fill, golden.at("seed"), tensors.size() == 1 ? name : name + "_scale", pool);
  }
  return tensors;
}

// A model that contains the golden one, and what it calls its tensors.
struct LargerModel {
  std::string architecture, model_type;
  std::string prefix;        // instead of "model."; the output head has none
  std::string other_tensor;  // of another part

  std::string name_of(const std::string& name) const {
    if (name == other_tensor) return name;
    return name.starts_with("model.") ? prefix + name.substr(6) : name;
  }
};

// The golden model as a directory of config.json, two shards and their index.
void write_checkpoint(const Directory& directory, const std::string& name, DType dtype, ThreadPool& pool,
                      const LargerModel* larger = nullptr) {
  Json golden = parse_json_file(FK_SOURCE_DIR "/tests/golden/data/" + name + ".json");
  Json config = golden.at("config");
  if (larger != nullptr) {
    config.erase("architectures");
    config = {{"architectures", {larger->architecture}}, {"model_type", larger->model_type}, {"text_config", config}};
  }
  std::ofstream(directory.file("config.json")) << config.dump();
  float norm_offset = config_from_json(golden.at("config"), name).family->norm_offset;
  std::vector<std::pair<std::string, Tensor>> shards[2];
  Json index = {{"metadata", Json::object()}, {"weight_map", Json::object()}};
  size_t count = 0;
  auto add = [&](std::string tensor_name, Tensor tensor) {
    if (larger != nullptr) tensor_name = larger->name_of(tensor_name);
    size_t shard = count++ % 2;
    index["weight_map"][tensor_name] =
        shard == 0 ? "model-00001-of-00002.safetensors" : "model-00002-of-00002.safetensors";
    shards[shard].emplace_back(tensor_name, std::move(tensor));
  };
  for (const auto& [tensor_name, extents] : golden.at("tensors").items()) {
    Shape shape(extents.get<std::vector<int64_t>>());
    if (constexpr std::string_view kBlocks = "_blocks"; tensor_name.ends_with(kBlocks)) {
      auto [elements, scales] = mxfp4_tensors(shape, golden.at("seed"), tensor_name, pool);
      add(tensor_name, std::move(elements));
      add(tensor_name.substr(0, tensor_name.size() - kBlocks.size()) + "_scales", std::move(scales));
      continue;
    }
    if (tensor_name.ends_with(".weight_scale")) continue;  // written with its matrix
    if (golden.at("tensors").contains(tensor_name + "_scale")) {
      std::vector<Tensor> tensors = ternary_tensors(golden, tensor_name, pool);
      add(tensor_name, std::move(tensors[0]));
      add(tensor_name + "_scale", std::move(tensors[1]));
      continue;
    }
    Tensor tensor(shape, dtype);
    fill_dummy(tensor, golden.at("seed"), tensor_name, dummy_range(tensor_name, shape, norm_offset), pool);
    add(tensor_name, std::move(tensor));
  }
  if (larger != nullptr) add(larger->other_tensor, Tensor({3, 5}, dtype));
  write_safetensors(directory.file("model-00001-of-00002.safetensors"), shards[0]);
  write_safetensors(directory.file("model-00002-of-00002.safetensors"), shards[1]);
  std::ofstream(directory.file("model.safetensors.index.json")) << index.dump();
}

class CheckpointOnDisk : public testing::TestWithParam<std::string> {};

TEST_P(CheckpointOnDisk, GivesTransformersLogits) {
  ThreadPool pool(2);
  Golden golden(GetParam());
  const Case* one = golden.find("one_prompt");
  for (DType stored : {DType::kF32, DType::kBF16}) {
    Directory directory(GetParam());
    write_checkpoint(directory, GetParam(), stored, pool);
    Model model =
        load_model(resolve_model(directory.path()), {.format = LoadFormat::kAuto, .dtype = DType::kF32}, pool);
    ModelExecutor executor(model, pool, {.max_sequences = 1, .max_context = 64});
    // Weights stored in bf16 and computed in f32 are what the float64 reference with rounded weights has.
    const auto& expected = stored == DType::kF32 ? one->logits[0] : one->logits_bf16_weights[0];
    EXPECT_LE(relative_error(expected, run_alone(executor, one->prompts[0]).data()), 1e-4) << dtype_name(stored);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, CheckpointOnDisk,
    testing::Values("tiny-llama-bias", "tiny-mistral", "tiny-qwen3", "tiny-gemma3", "tiny-qwen2", "tiny-olmo2-bias",
                    "tiny-granite-bias", "tiny-phi3-partial", "tiny-glm4", "tiny-cohere-normed", "tiny-mixtral",
                    "tiny-qwen2-moe-mixed", "tiny-qwen3-moe-mixed", "tiny-glm4-moe-groups", "tiny-gpt-oss",
                    "tiny-gpt-oss-mxfp4", "tiny-llama4-mixed", "tiny-gemma4", "tiny-gemma4-dense", "tiny-bitnet",
                    "tiny-bitnet-inverse", "tiny-bitnet-plain", "tiny-gla-grouped", "tiny-gla-plain", "tiny-retnet",
                    "tiny-rwkv7", "tiny-rwkv7-odd", "tiny-mamba", "tiny-mamba-odd", "tiny-falcon-mamba-bias",
                    "tiny-mamba2-odd", "tiny-mamba2-groups", "tiny-jamba", "tiny-jamba-odd", "tiny-qwen3-next",
                    "tiny-deepseek-v3", "tiny-deepseek-v3-yarn", "tiny-deepseek-v32", "tiny-glm-moe-dsa-odd",
                    "tiny-kimi-linear", "tiny-kimi-linear-odd", "tiny-kimi-linear-groups"),
    [](const auto& test) {
      std::string name = test.param;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

// Published checkpoints of Gemma 4 hold a vision part, too.
TEST(CheckpointOfALargerModel, GivesTransformersLogits) {
  const LargerModel larger{.architecture = "Gemma4ForConditionalGeneration",
                           .model_type = "gemma4",
                           .prefix = "model.language_model.",
                           .other_tensor = "model.vision_tower.patch_embedder.weight"};
  for (const char* name : {"tiny-gemma4", "tiny-gemma4-dense"}) {  // with a tied head, and one of its own
    ThreadPool pool(2);
    Golden golden(name);
    const Case* one = golden.find("one_prompt");
    Directory directory("larger_model");
    write_checkpoint(directory, name, DType::kF32, pool, &larger);
    Model model =
        load_model(resolve_model(directory.path()), {.format = LoadFormat::kAuto, .dtype = DType::kF32}, pool);
    ModelExecutor executor(model, pool, {.max_sequences = 1, .max_context = 64});
    EXPECT_LE(relative_error(one->logits[0], run_alone(executor, one->prompts[0]).data()), 1e-4) << name;
  }
}

// Each rank reads its slices of tensors that stand alone, are stacked (phi3), transposed (gpt-oss, llama4) or shared by
// ranks.
TEST(CheckpointOnRanks, GivesTransformersLogits) {
  for (const char* name : {"tiny-mistral", "tiny-phi3", "tiny-gpt-oss", "tiny-llama4", "tiny-qwen3-mqa"}) {
    ThreadPool writer(1);
    Golden golden(name);
    const Case* one = golden.find("one_prompt");
    Directory directory(std::string("ranks_") + name);
    write_checkpoint(directory, name, DType::kBF16, writer);
    on_ranks(2, [&](Communicator& ranks) {
      ThreadPool pool(1);
      Model model = load_model(resolve_model(directory.path()),
                               {.format = LoadFormat::kAuto, .dtype = DType::kF32, .communicator = &ranks}, pool);
      ModelExecutor executor(model, pool, {.max_sequences = 1, .max_context = 64});
      EXPECT_LE(relative_error(one->logits_bf16_weights[0], run_alone(executor, one->prompts[0]).data()), 1e-4)
          << name << ", rank " << ranks.rank();
    });
  }
}

}  // namespace
}  // namespace fk::golden
