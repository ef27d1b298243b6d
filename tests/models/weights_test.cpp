// Weights: packed parameters hold their parts, values survive conversion, and every name and shape is accounted for.
#include "models/weights.h"

#include <gtest/gtest.h>

#include <cstring>

#include "models/dummy_weights.h"
#include "tests/models/error_text.h"
#include "tests/models/safetensors_bytes.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

std::vector<ParamSpec> specs(DType dtype) {
  return {{.name = "embed.weight", .spec = {{3, 2}, dtype}},
          {.name = "attn.qkv_proj.weight",
           .spec = {{4, 2}, dtype},
           .part_rows = {2, 1, 1},
           .part_names = {"attn.q_proj.weight", "attn.k_proj.weight", "attn.v_proj.weight"}},
          {.name = "norm.weight", .spec = {{2}, dtype}}};
}

std::vector<TensorBytes> good_tensors() {
  return {{"embed.weight", "F32", "[3,2]", f32_bytes({1, 2, 3, 4, 5, 6})},
          {"attn.q_proj.weight", "F32", "[2,2]", f32_bytes({10, 11, 12, 13})},
          {"attn.k_proj.weight", "BF16", "[1,2]", u16_bytes({0x3f80, 0x4000})},  // 1, 2
          {"attn.v_proj.weight", "F16", "[1,2]", u16_bytes({0xc000, 0x3800})},   // -2, 0.5
          {"norm.weight", "F32", "[2]", f32_bytes({7, 8})}};
}

class WeightsTest : public testing::Test {
 protected:
  Weights load(const std::vector<TensorBytes>& tensors, DType dtype) {
    dir_.write("model.safetensors", safetensors_bytes(tensors));
    return Weights::load(specs(dtype), Checkpoint::open(dir_.path()), pool_);
  }
  std::string refusal(const std::vector<TensorBytes>& tensors) {
    return error_of([&] { load(tensors, DType::kF32); });
  }

  TempDirectory dir_;
  ThreadPool pool_{2};
};

void expect_values(const View& view, const std::vector<double>& values) {
  ASSERT_EQ(view.numel(), static_cast<int64_t>(values.size()));
  View flat = view.reshape({view.numel()});
  for (int64_t i = 0; i < flat.numel(); ++i) EXPECT_EQ(get(flat, i), values[static_cast<size_t>(i)]) << i;
}

TEST_F(WeightsTest, StacksPartsAndConverts) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    Weights weights = load(good_tensors(), dtype);
    Weights moved = std::move(weights);
    EXPECT_EQ(moved.get("embed.weight").spec(), (TensorSpec{{3, 2}, dtype}));
    expect_values(moved.get("embed.weight"), {1, 2, 3, 4, 5, 6});
    expect_values(moved.get("attn.qkv_proj.weight"), {10, 11, 12, 13, 1, 2, -2, 0.5});
    expect_values(moved.get("norm.weight"), {7, 8});
    EXPECT_EQ(moved.size_bytes(), 16 * dtype_size(dtype));
  }
}

// One tensor for each expert and projection fills experts [E, N, K] in order; with one expert too, whose matrix may
// stay in the file.
TEST_F(WeightsTest, StacksExperts) {
  std::vector<ParamSpec> experts = {
      {.name = "w13.weight",
       .spec = {{2, 3, 2}, DType::kF32},
       .part_rows = {1, 2, 1, 2},
       .part_names = {"0.gate", "0.up", "1.gate", "1.up"}},
      {.name = "w2.weight", .spec = {{1, 2, 1}, DType::kF32}, .part_rows = {2}, .part_names = {"0.down"}}};
  std::vector<TensorBytes> tensors = {{"0.down", "F32", "[2,1]", f32_bytes({13, 14})},
                                      {"0.gate", "F32", "[1,2]", f32_bytes({1, 2})},
                                      {"0.up", "F32", "[2,2]", f32_bytes({3, 4, 5, 6})},
                                      {"1.gate", "F32", "[1,2]", f32_bytes({7, 8})},
                                      {"1.up", "F32", "[2,2]", f32_bytes({9, 10, 11, 12})}};
  auto loaded = [&] {
    dir_.write("model.safetensors", safetensors_bytes(tensors));
    return Weights::load(experts, Checkpoint::open(dir_.path()), pool_);
  };
  Weights weights = loaded();
  for (const ParamSpec& p : experts) EXPECT_EQ(weights.get(p.name).spec(), p.spec) << p.name;
  expect_values(weights.get("w13.weight"), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  expect_values(weights.get("w2.weight"), {13, 14});

  Weights dummy = Weights::dummy(experts, 5, 1, pool_);
  Tensor up(Shape{2, 2}, DType::kF32);
  fill_dummy(up, 5, "1.up", dummy_range("1.up", {2, 2}, 1), pool_);
  View got = dummy.get("w13.weight").select(0, 1).narrow(0, 1, 2);
  EXPECT_EQ(std::memcmp(got.data(), up.view().data(), got.size_bytes()), 0);

  tensors[4].shape = "[4,1]";
  expect_sentence(error_of(loaded), {"'1.up'", "[4, 1]", "[2, 2]"});
  tensors[4].name = "2.up";
  expect_sentence(error_of(loaded), {"lacks '1.up'", "no place for '2.up'"});
}

// An odd tensor first moves all others to odd addresses, where they can be read but not used in place.
TEST_F(WeightsTest, CopesWithTensorsThatAreNotAligned) {
  std::vector<TensorBytes> tensors = good_tensors();
  tensors.insert(tensors.begin(), {"x.rotary_emb.inv_freq", "U8", "[1]", "x"});
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    Weights weights = load(tensors, dtype);
    for (const char* name : {"embed.weight", "attn.qkv_proj.weight", "norm.weight"})
      EXPECT_EQ(reinterpret_cast<uintptr_t>(weights.get(name).data()) % dtype_size(dtype), 0u) << name;
    expect_values(weights.get("embed.weight"), {1, 2, 3, 4, 5, 6});
    expect_values(weights.get("attn.qkv_proj.weight"), {10, 11, 12, 13, 1, 2, -2, 0.5});
  }
}

TEST_F(WeightsTest, UsesTensorsInPlaceWhereTheyFit) {
  dir_.write("model.safetensors", safetensors_bytes(good_tensors()));
  Checkpoint checkpoint = Checkpoint::open(dir_.path());
  const void* in_file = checkpoint.find("embed.weight")->data();
  const void* part = checkpoint.find("attn.q_proj.weight")->data();
  Weights weights = Weights::load(specs(DType::kF32), std::move(checkpoint), pool_);
  EXPECT_EQ(weights.get("embed.weight").data(), in_file);
  expect_values(weights.get("embed.weight"), {1, 2, 3, 4, 5, 6});
  EXPECT_NE(weights.get("attn.qkv_proj.weight").data(), part);
}

TEST_F(WeightsTest, IgnoresOnlyWhatMayBeIgnored) {
  std::vector<TensorBytes> tensors = good_tensors();
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", "[1]", f32_bytes({1})});
  tensors.push_back({"lm_head.weight", "F32", "[3,2]", f32_bytes({1, 2, 3, 4, 5, 6})});
  EXPECT_NO_THROW(load(tensors, DType::kF32));
  tensors.push_back({"attn.q_proj.bias", "F32", "[2]", f32_bytes({1, 2})});
  expect_sentence(refusal(tensors), {"no place for", "'attn.q_proj.bias'"});
}

TEST_F(WeightsTest, NamesMissingAndUnusedTensors) {
  std::vector<TensorBytes> tensors = good_tensors();
  tensors[2].name = "attn.key.weight";
  expect_sentence(refusal(tensors), {"lacks", "'attn.k_proj.weight'", "no place for", "'attn.key.weight'"});
  tensors = good_tensors();
  for (int i = 0; i < 9; ++i) tensors.push_back({"extra." + std::to_string(i), "U8", "[1]", "x"});
  std::string sentence = refusal(tensors);
  expect_sentence(sentence, {"'extra.4'", "and 4 more"});
  EXPECT_EQ(sentence.find("extra.5"), std::string::npos);
  expect_sentence(refusal({}), {"lacks", "'embed.weight'", "'norm.weight'"});
}

TEST_F(WeightsTest, NamesTheTensorOfAWrongShapeOrType) {
  std::vector<TensorBytes> tensors = good_tensors();
  tensors[0] = {"embed.weight", "F32", "[2,3]", f32_bytes({1, 2, 3, 4, 5, 6})};
  expect_sentence(refusal(tensors), {"'embed.weight'", "[2, 3]", "[3, 2]"});
  tensors = good_tensors();
  tensors[1] = {"attn.q_proj.weight", "F32", "[4]", f32_bytes({10, 11, 12, 13})};
  expect_sentence(refusal(tensors), {"'attn.q_proj.weight'", "[4]", "[2, 2]"});
  tensors = good_tensors();
  tensors[4] = {"norm.weight", "I8", "[2]", "ab"};
  expect_sentence(refusal(tensors), {"'norm.weight'", "i8", "bf16"});
}

TEST_F(WeightsTest, DummyWeightsAreThoseOfTheCheckpointsTensors) {
  Weights weights = Weights::dummy(specs(DType::kBF16), 9, 1, pool_);
  EXPECT_EQ(weights.size_bytes(), 32u);
  Tensor k({1, 2}, DType::kBF16), norm({2}, DType::kBF16);
  fill_dummy(k, 9, "attn.k_proj.weight", dummy_range("attn.k_proj.weight", {1, 2}, 1), pool_);
  fill_dummy(norm, 9, "norm.weight", {1, 0.1f}, pool_);
  EXPECT_EQ(std::memcmp(weights.get("attn.qkv_proj.weight").narrow(0, 2, 1).data(), k.view().data(), 4), 0);
  EXPECT_EQ(std::memcmp(weights.get("norm.weight").data(), norm.view().data(), 4), 0);
}

TEST_F(WeightsTest, RefusesModelsLargerThanTheMemory) {
  std::vector<ParamSpec> huge = {{.name = "w", .spec = {{int64_t{1} << 30, int64_t{1} << 20}, DType::kBF16}}};
  expect_sentence(error_of([&] { Weights::dummy(huge, 1, 1, pool_); }), {"GiB", "smaller model"});
}

}  // namespace
}  // namespace fk
