// Diffusion language models against the reference of tools/golden/diffusion.py: the same dummy weights, logits of
// masked tokens, and whole texts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/json.h"
#include "engine/denoiser.h"
#include "models/config.h"
#include "models/dummy_weights.h"
#include "models/safetensors_writer.h"
#include "tests/golden/golden_model.h"

namespace fk::golden {
namespace {

const std::string kDiffusionData = FK_SOURCE_DIR "/tests/golden/diffusion_data/";

class Diffusion : public testing::TestWithParam<Subject> {
 protected:
  Diffusion() : json_(parse_json_file(kDiffusionData + GetParam().model + ".json")), pool_(2) {
    source_.name = GetParam().model;
    source_.config = config_from_json(json_.at("config"), source_.name);
  }
  void SetUp() override {
    if (std::string why = device_missing(GetParam().device); !why.empty()) GTEST_SKIP() << why;
  }

  Model load(DType dtype) {
    LoadOptions options{
        .format = LoadFormat::kDummy, .dtype = dtype, .seed = json_.at("seed"), .device = GetParam().device};
    return load_model(source_, options, pool_);
  }

  // Each text alone, and all in one pass.
  void expect_aligned(DType dtype, const std::string& logits, double bound) {
    Model model = load(dtype);
    std::unique_ptr<Encoder> encoder = make_encoder(model, pool_);
    EncoderInput all;
    std::vector<std::vector<double>> expected;
    for (const Json& pass : json_.at("passes")) {
      all.texts.push_back(pass.at("ids"));
      all.wanted.push_back(pass.at("places"));
      const size_t first = expected.size();
      for (const Json& row : pass.at(logits)) expected.push_back(row);
      EncoderInput one{.texts = {all.texts.back()}, .wanted = {all.wanted.back()}};
      EXPECT_LE(error(encoder->forward(one).last_hidden_state, expected, first), bound) << all.texts.size();
    }
    EXPECT_LE(error(encoder->forward(all).last_hidden_state, expected, 0), bound) << "in one batch";
    for (const DispatchCount& d : collect_dispatches(*model.root)) EXPECT_NE(d.implementation, "oracle") << d.op;
  }

  static double error(const View& logits, const std::vector<std::vector<double>>& expected, size_t first) {
    const std::vector<float> got = on_host(logits);
    double largest = 0, worst = 0;
    for (const auto& row : expected)
      for (double x : row) largest = std::max(largest, std::abs(x));
    for (size_t r = 0; r < static_cast<size_t>(logits.size(0)); ++r)
      for (size_t i = 0; i < expected[first + r].size(); ++i) {
        const double off = std::abs(expected[first + r][i] - static_cast<double>(got[r * expected[first].size() + i]));
        worst = off / largest <= worst ? worst : off / largest;  // a NaN is the worst
      }
    return worst;
  }

  Json json_;
  ModelSource source_;
  ThreadPool pool_;
};

TEST_P(Diffusion, LogitsInF32) { expect_aligned(DType::kF32, "logits", 1e-5); }

TEST_P(Diffusion, Bf16StaysWithinTransformersOwnError) {
  expect_aligned(DType::kBF16, "logits_bf16_weights", 1.5 * json_.at("bf16").at("largest_error").get<double>());
}

TEST_P(Diffusion, TextsAreThoseOfTheReference) {
  Model model = load(DType::kF32);
  Denoiser denoiser(model, pool_);
  for (const Json& text : json_.at("generations")) {
    const DenoiseOptions options{
        .gen_length = text.at("gen_length"), .block_length = text.at("block_length"), .steps = text.at("steps")};
    const std::vector<int64_t> prompt = text.at("prompt"), tokens = text.at("tokens");
    EXPECT_EQ(denoiser.generate({prompt}, options)[0], tokens) << text.dump();
    // Beside a longer prompt it is the same text.
    std::vector<int64_t> longer = prompt;
    longer.insert(longer.end(), tokens.begin(), tokens.end());
    EXPECT_EQ(denoiser.generate({longer, prompt}, options)[1], tokens) << text.dump();
  }
}

// A checkpoint under the published names gives the same logits.
TEST_P(Diffusion, CheckpointsOnDiskHaveThePublishedNames) {
  if (GetParam().device != kCpu) GTEST_SKIP() << "files are read on the CPU";
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / ("fk_llada_" + GetParam().model);
  std::filesystem::create_directories(folder);
  std::vector<Tensor> memory;
  std::vector<std::pair<std::string, View>> tensors;
  for (const auto& [name, extents] : json_.at("tensors").items()) {
    memory.emplace_back(Shape(extents.get<std::vector<int64_t>>()), DType::kF32);
    fill_dummy(memory.back(), json_.at("seed"), name, dummy_range(name, memory.back().view().shape(), 1), pool_);
    tensors.emplace_back(name, memory.back());
  }
  write_safetensors((folder / "model.safetensors").string(), tensors);
  std::ofstream(folder / "config.json") << json_.at("config").dump();
  Model model = load_model(resolve_model(folder.string()), {.format = LoadFormat::kAuto, .dtype = DType::kF32}, pool_);
  const Json& pass = json_.at("passes").back();
  std::unique_ptr<Encoder> encoder = make_encoder(model, pool_);
  Encoded encoded = encoder->forward({.texts = {pass.at("ids")}, .wanted = {pass.at("places")}});
  EXPECT_LE(error(encoded.last_hidden_state, pass.at("logits"), 0), 1e-5);
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Models, Diffusion, testing::ValuesIn(subjects(kDiffusionData)),
                         [](const auto& test) { return subject_name(test.param); });

}  // namespace
}  // namespace fk::golden
