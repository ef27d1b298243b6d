// Quantised checkpoints of families whose products take elements of a dtype: the logits are, bit by bit, those of the
// dequantised twin; on one rank and on several, with the names that published checkpoints have.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <set>

#include "models/dequantise.h"
#include "models/family.h"
#include "tests/core/on_ranks.h"
#include "tests/engine/quantised_configs.h"
#include "tests/engine/quantised_twins.h"
#include "tests/models/error_text.h"

namespace fk {
namespace {

struct Named {
  const char* name;
  const char* text;
};
constexpr Named kFamilies[] = {{"Qwen3Next", kQwen3Next},
                               {"KimiLinear", kKimiLinear},
                               {"Jamba", kJamba},
                               {"Gemma4", kGemma4},
                               {"DeepseekV3", kDeepseekV3}};
void PrintTo(const Named& named, std::ostream* out) { *out << named.name; }

class DequantisedFamily : public testing::TestWithParam<Named> {};

TEST_P(DequantisedFamily, HasTheLogitsOfItsTwin) {
  const std::pair<const char*, std::string> methods[] = {
      {"fp8_block", kBlockConfig},
      {"fp8_channel", channel_config()},
      {"nvfp4", nvfp4_config()},
      {"int4_packed_g32", packed_config()},
      {"int4_gptq_g32", kGptqConfig},
      {"int4_awq_g32", R"({"quant_method":"awq","bits":4,"group_size":32,"version":"gemm"})"}};
  for (const auto& [format, config] : methods) {
    QuantisedTwins twins(GetParam().text, all_in(format));
    EXPECT_GT(twins.matrices, 10);
    twins.write(config);
    SCOPED_TRACE(format);
    expect_same(twins);
  }
}

TEST_P(DequantisedFamily, RoundsToTheDtypeOfTheModel) {
  QuantisedTwins twins(GetParam().text, all_in("fp8_block"));
  twins.write(kBlockConfig);
  expect_same(twins, DType::kBF16);
}

INSTANTIATE_TEST_SUITE_P(Families, DequantisedFamily, testing::ValuesIn(kFamilies),
                         [](const auto& p) { return std::string(p.param.name); });

// Each rank dequantises its rows. Recurrent layers of the other families run on one rank.
TEST(DequantisedRanks, HaveTheLogitsOfTheTwinOnAsManyRanks) {
  for (const char* config : {kGemma4, kDeepseekV3, kQwen3Moe, kPhi3})
    for (const char* format : {"fp8_block", "int4_packed_g32", "int4_gptq_g32"}) {
      QuantisedTwins twins(config, all_in(format));
      twins.write(format == std::string("fp8_block") ? kBlockConfig : format[5] == 'p' ? packed_config() : kGptqConfig);
      std::vector<std::vector<float>> quantised(2), plain(2);
      on_ranks(2, [&](Communicator& ranks) {
        const auto rank = static_cast<size_t>(ranks.rank());
        quantised[rank] = logits_of_model(twins.quantised_path(), DType::kF32, &ranks);
        plain[rank] = logits_of_model(twins.plain_path(), DType::kF32, &ranks);
      });
      EXPECT_EQ(quantised, plain) << format;
      const std::vector<float> one = logits_of_model(twins.plain_path());
      double errors = 0, squares = 0;
      for (size_t i = 0; i < one.size(); ++i) {
        errors += std::pow(one[i] - quantised[0][i], 2);
        squares += std::pow(one[i], 2);
      }
      EXPECT_LT(errors, 1e-8 * squares) << format;
    }
}

// Every family of which transformers or its own code wrote a config.
TEST(DequantisedFamilies, HaveTheWeightsOfTheirTwins) {
  ThreadPool pool(2);
  std::set<std::string> families;
  std::vector<std::filesystem::path> files;
  for (const char* folder : {"data", "diffusion_data"})
    for (const auto& file : std::filesystem::directory_iterator(FK_SOURCE_DIR "/tests/golden/" + std::string(folder)))
      files.push_back(file.path());
  for (const std::filesystem::path& file : files) {
    if (!file.stem().string().starts_with("tiny-")) continue;
    const Json config = parse_json_file(file).at("config");
    const ModelConfig read = config_from_json(config, file.string());
    // These two read a quant_method of their own.
    const bool reads_itself = read.family->name == "bitnet" || read.family->name == "gpt_oss";
    if (is_encoder(read.facts.task) || read.facts.task == Task::kDraftHead || reads_itself) continue;
    QuantisedTwins twins(config.dump(), all_in("fp8_channel"));
    twins.write(channel_config());
    const ModelSource source = resolve_model(twins.quantised_path());
    if (!std::get<std::string>(*find_field(source.config.init, "weight_format")).empty()) continue;
    SCOPED_TRACE(file.string());
    const Model quantised = load_model(source, {.dtype = DType::kBF16}, pool);
    const Model plain = load_model(resolve_model(twins.plain_path()), {.dtype = DType::kBF16}, pool);
    for (const ParamSpec& param : collect_params(*plain.root)) {
      const View a = quantised.weight(param.name), b = plain.weight(param.name);
      ASSERT_EQ(a.spec(), b.spec()) << param.name;
      ASSERT_EQ(std::memcmp(a.data(), b.data(), a.size_bytes()), 0) << param.name;
    }
    EXPECT_GT(twins.matrices, 3);
    families.emplace(read.family->name);
  }
  for (const char* family :
       {"deepseek_v3", "deepseek_v32", "falcon_mamba", "gemma4",    "gla",        "glm4",   "glm4_moe",
        "glm_moe_dsa", "jamba",        "kimi_linear",  "llada",     "llama4",     "mamba",  "mamba2",
        "mixtral",     "phi3",         "qwen2_moe",    "qwen3_moe", "qwen3_next", "retnet", "rwkv7"})
    EXPECT_TRUE(families.contains(family)) << family;
}

TEST(Dequantised, RowsAreThoseOfTheWholeMatrix) {
  ThreadPool pool(2);
  const Shape shape{160, 192};
  for (const char* name : {"fp8_block", "fp8_channel", "fp8_tensor", "nvfp4", "int8_channel", "int4_packed_asym_g32",
                           "int4_gptq_g64", "int4_awq_g32"}) {
    const ScaledFormat& format = scaled_format(name);
    std::deque<Tensor> tensors;
    std::vector<View> views;
    for (const ParamSpec& spec : stored_tensors(format, "m.weight", shape)) {
      fill(tensors.emplace_back(spec.spec), *spec.fill, 7, spec.name, BatchMetadata(Workload{}, 7));
      views.push_back(tensors.back().view());
    }
    const Tensor whole = dequantised(format, views, shape, {0, 160}, DType::kF32, pool);
    const Tensor rows = dequantised(format, views, shape, {37, 100}, DType::kF32, pool);
    ASSERT_EQ(rows.view().shape(), (Shape{100, 192}));
    EXPECT_EQ(std::memcmp(rows.view().data(), whole.ptr<float>() + 37 * 192, rows.view().size_bytes()), 0) << name;
  }
}

}  // namespace
}  // namespace fk
