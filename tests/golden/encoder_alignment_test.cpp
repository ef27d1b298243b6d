// Our encoders against transformers: the same dummy weights, the same texts and images, vectors as stored.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/device_runtime.h"
#include "core/json.h"
#include "core/rng.h"
#include "engine/encoder.h"
#include "models/config.h"
#include "models/dummy_weights.h"
#include "models/safetensors_writer.h"
#include "tests/golden/golden_model.h"

namespace fk::golden {
namespace {

const std::string kEncoderData = FK_SOURCE_DIR "/tests/golden/encoder_data/";
constexpr double kEncoderF32Bound = 1e-5;  // of the largest number; transformers' own f32 is within 1e-6 of float64

using Vectors = std::vector<std::vector<double>>;

struct GoldenEncoder {
  explicit GoldenEncoder(const std::string& name) : json(parse_json_file(kEncoderData + name + ".json")) {
    source.name = name;
    source.config = config_from_json(json.at("config"), name);
  }

  Model load(DType dtype, ThreadPool& pool, Device device) const {
    LoadOptions options{.format = LoadFormat::kDummy, .dtype = dtype, .seed = json.at("seed"), .device = device};
    return load_model(source, options, pool);
  }

  EncoderInput inputs() const {
    EncoderInput input;
    for (const Json& one : json.at("inputs")) {
      if (one.is_array())
        input.texts.push_back(one);
      else
        input.images.push_back(image(one));
    }
    return input;
  }

  Json json;
  ModelSource source;

 private:
  Tensor image(const std::string& stream_name) const {
    const ModelFacts& facts = source.config.facts;
    Tensor pixels({facts.num_channels, facts.image_size, facts.image_size}, DType::kF32);
    Stream stream(json.at("seed"), stream_name);
    for (int64_t i = 0; i < pixels.view().numel(); ++i)
      pixels.ptr<float>()[i] = static_cast<float>(2 * stream.uniform(static_cast<uint64_t>(i)) - 1);
    return pixels;
  }
};

// Memory of the host with the numbers of a view.
Tensor host_copy(const View& view) {
  Tensor copy(view.spec());
  copy_between(view, copy.view());
  return copy;
}

std::vector<float> row(const View& view, int64_t r) {
  std::vector<float> values;
  for (int64_t i = 0; i < view.size(1); ++i) values.push_back(static_cast<float>(get(view, r, i)));
  return values;
}

// The first, the last and the mean vector of input i.
std::vector<std::vector<float>> vectors_of(Encoder& encoder, const Encoded& encoded, int64_t i) {
  Tensor first = host_copy(encoded.cu_seqlens), vectors = host_copy(encoded.last_hidden_state);
  const auto* starts = first.ptr<int32_t>();
  View means = encoder.embed(encoded, {.pooling = "mean", .normalize = false});
  return {row(vectors, starts[i]), row(vectors, starts[i + 1] - 1), row(means, i)};
}

// The error of all inputs of a pass, as tools/golden/encoders.py computes it; `first` is the number of the first one.
double error_of_pass(Encoder& encoder, const Encoded& encoded, const Json& golden, const std::string& weights,
                     size_t first) {
  auto parts = golden.at("vectors" + weights).get<std::vector<Vectors>>();
  Vectors pooled;
  if (golden.contains("pooled" + weights)) pooled = golden.at("pooled" + weights).get<Vectors>();
  auto largest = [](const Vectors& list) {
    double most = 0;
    for (const auto& v : list)
      for (double x : v) most = std::max(most, std::fabs(x));
    return most;
  };
  double scale = 0, worst = 0;
  for (const Vectors& list : parts) scale = std::max(scale, largest(list));
  auto compare = [&](const std::vector<double>& expected, const std::vector<float>& actual, double of) {
    for (size_t k = 0; k < expected.size(); ++k) {
      double error = std::fabs(expected[k] - static_cast<double>(actual[k])) / of;
      worst = error <= worst ? worst : error;  // a NaN is the worst
    }
  };
  for (int64_t i = 0; i + 1 < encoded.cu_seqlens.size(0); ++i) {
    size_t at = first + static_cast<size_t>(i);
    std::vector<std::vector<float>> own = vectors_of(encoder, encoded, i);
    for (size_t part = 0; part < own.size(); ++part) compare(parts[at][part], own[part], scale);
    EXPECT_EQ(encoded.pooler_output.has_value(), !pooled.empty());
    if (!pooled.empty()) compare(pooled[at], row(host_copy(*encoded.pooler_output), i), largest(pooled));
  }
  return worst;
}

class EncoderAlignment : public testing::TestWithParam<Subject> {
 protected:
  EncoderAlignment() : golden_(GetParam().model), pool_(2) {}
  void SetUp() override {
    if (std::string why = device_missing(GetParam().device); !why.empty()) GTEST_SKIP() << why;
  }

  // One by one, and all in one pass.
  void expect_aligned(DType dtype, const std::string& weights, double bound) {
    Model model = golden_.load(dtype, pool_, GetParam().device);
    std::unique_ptr<Encoder> encoder = make_encoder(model, pool_);
    EncoderInput all = golden_.inputs();
    EXPECT_LE(error_of_pass(*encoder, encoder->forward(all), golden_.json, weights, 0), bound) << "in one batch";
    for (size_t i = 0; i < all.size(); ++i) {
      EncoderInput one;
      if (!all.texts.empty()) one.texts = {all.texts[i]};
      if (!all.images.empty()) one.images.push_back(std::move(all.images[i]));
      EXPECT_LE(error_of_pass(*encoder, encoder->forward(one), golden_.json, weights, i), bound) << "input " << i;
    }
    for (const DispatchCount& d : collect_dispatches(*model.root)) EXPECT_NE(d.implementation, "oracle") << d.op;
  }

  GoldenEncoder golden_;
  ThreadPool pool_;
};

TEST_P(EncoderAlignment, VectorsInF32) { expect_aligned(DType::kF32, "", kEncoderF32Bound); }

// With the same rounded weights, no worse than transformers' own bf16 by more than the spread between two orders of
// summation.
TEST_P(EncoderAlignment, Bf16StaysWithinTransformersOwnError) {
  expect_aligned(DType::kBF16, "_bf16_weights", 1.5 * golden_.json.at("bf16_error").get<double>());
}

TEST_P(EncoderAlignment, F16StaysWithinTransformersOwnError) {
  expect_aligned(DType::kF16, "", 1.5 * golden_.json.at("f16_error").get<double>());
}

// The checkpoint of the whole model, as transformers stores it: names, packing, the prefix in a larger model, and
// tensors that belong to other parts of it.
TEST_P(EncoderAlignment, ReadsACheckpointOnDisk) {
  namespace fs = std::filesystem;
  fs::path folder = fs::path(testing::TempDir()) / ("fk_encoder_" + subject_name(GetParam()));
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << golden_.json.at("config").dump();
  std::string prefix = golden_.json.at("prefix");
  std::vector<Tensor> owned;
  std::vector<std::pair<std::string, View>> tensors;
  for (const auto& [name, extents] : golden_.json.at("tensors").items()) {
    Shape shape(extents.get<std::vector<int64_t>>());
    owned.emplace_back(shape, DType::kF32);
    std::string dummy_name = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
    fill_dummy(owned.back(), golden_.json.at("seed"), dummy_name, dummy_range(dummy_name, shape, 1), pool_);
    tensors.emplace_back(name, owned.back());
  }
  write_safetensors((folder / "model.safetensors").string(), tensors);
  Model model = load_model(resolve_model(folder.string()),
                           {.format = LoadFormat::kAuto, .dtype = DType::kF32, .device = GetParam().device}, pool_);
  std::unique_ptr<Encoder> encoder = make_encoder(model, pool_);
  EXPECT_LE(error_of_pass(*encoder, encoder->forward(golden_.inputs()), golden_.json, "", 0), kEncoderF32Bound);
  fs::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Models, EncoderAlignment, testing::ValuesIn(subjects(kEncoderData)),
                         [](const auto& test) { return subject_name(test.param); });

}  // namespace
}  // namespace fk::golden
