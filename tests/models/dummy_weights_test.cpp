// Dummy weights: bit-identical to those of the NumPy tool, however the work is split.
#include "models/dummy_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "core/memory.h"
#include "core/rng.h"

namespace fk {
namespace {

uint64_t fnv1a(const View& view) {
  uint64_t h = 0xcbf29ce484222325u;
  const auto* bytes = static_cast<const unsigned char*>(view.data());
  for (size_t i = 0; i < view.size_bytes(); ++i) h = (h ^ bytes[i]) * 0x100000001b3u;
  return h;
}

Tensor dummy(uint64_t seed, const std::string& name, const Shape& shape, float norm_offset, DType dtype,
             int threads = 1) {
  ThreadPool pool(threads);
  Tensor tensor(shape, dtype);
  fill_dummy(tensor, seed, name, dummy_range(name, shape, norm_offset), pool);
  return tensor;
}

// Hashes of the bytes tools/golden/dummy.py made with NumPy, for f32, bf16 and f16.
TEST(DummyWeights, EqualThoseOfTheNumPyTool) {
  struct Case {
    uint64_t seed;
    const char* name;
    Shape shape;
    float norm_offset;
    uint64_t f32, bf16, f16;
  };
  const Case cases[] = {
      {7,
       "model.layers.0.mlp.gate_proj.weight",
       {37, 149},
       1,
       0x14bec0de66080158,
       0xa6dbff07cdb88de1,
       0x3a4b6de56cdea2db},
      {0, "model.norm.weight", {100}, 1, 0x4a0f8ba855d760da, 0x6765d979985063f, 0x66b4ff64dc7fc2a1},
      {0, "model.norm.weight", {100}, 0, 0xe525bba19fe27eba, 0x32d6287be439f7a4, 0xe589aad88b72eb20},
      {UINT64_MAX,
       "model.layers.3.self_attn.q_proj.bias",
       {4099},
       1,
       0x2796c2e04c33c8,
       0xe6f73419756a92c1,
       0xd2f0c29f3ed8045e},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(fnv1a(dummy(c.seed, c.name, c.shape, c.norm_offset, DType::kF32)), c.f32) << c.name;
    EXPECT_EQ(fnv1a(dummy(c.seed, c.name, c.shape, c.norm_offset, DType::kBF16)), c.bf16) << c.name;
    EXPECT_EQ(fnv1a(dummy(c.seed, c.name, c.shape, c.norm_offset, DType::kF16)), c.f16) << c.name;
  }
  Tensor gate = dummy(7, cases[0].name, cases[0].shape, 1, DType::kF32);
  const uint32_t first[] = {0x3de5d488, 0xbd31d23a, 0xbdab4ead};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(std::bit_cast<uint32_t>(gate.ptr<float>()[i]), first[i]);
}

// The definition of dummy_weights.h, one element at a time, in double with a rounding after each step.
TEST(DummyWeights, FollowTheirDefinition) {
  const std::string name = "model.layers.0.self_attn.k_norm.weight";
  Tensor tensor = dummy(3, name, {10007}, 1, DType::kF32);
  Stream stream(3, name);
  for (uint64_t i = 0; i < 10007; ++i) {
    uint32_t h = (stream.block(i / 8)[(i % 8) / 2] >> (16 * (i % 2))) & 0xffff;
    double u = (2.0 * h + 1 - 65536) / 65536;
    auto product = static_cast<float>(static_cast<double>(0.1f) * u);
    auto expected = static_cast<float>(1.0 + static_cast<double>(product));
    ASSERT_EQ(tensor.ptr<float>()[i], expected) << i;
  }
}

TEST(DummyWeights, DoNotDependOnThreadsOrPieces) {
  const std::string name = "w";
  Shape shape{1031, 2053};  // several grains of the parallel loop, none of them whole
  Tensor whole = dummy(5, name, shape, 1, DType::kBF16, 3);
  EXPECT_EQ(fnv1a(whole), fnv1a(dummy(5, name, shape, 1, DType::kBF16, 1)));
  ThreadPool pool(2);
  for (int64_t first : {0, 1, 7, 8, 2047, 2048, 2053, 100003}) {
    for (int64_t count : {1, 9, 5000}) {
      Tensor piece({count}, DType::kBF16);
      fill_dummy(piece, 5, name, dummy_range(name, shape, 1), pool, first);
      ASSERT_EQ(std::memcmp(piece.ptr<bf16>(), whole.ptr<bf16>() + first, static_cast<size_t>(count) * 2), 0) << first;
    }
  }
}

TEST(DummyWeights, HaveTheScaleThatKeepsActivationsSteady) {
  Tensor matrix = dummy(1, "model.layers.0.mlp.down_proj.weight", {256, 1024}, 1, DType::kF32);
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < matrix.view().numel(); ++i) {
    double x = matrix.ptr<float>()[i];
    sum += x;
    squares += x * x;
  }
  double n = static_cast<double>(matrix.view().numel());
  EXPECT_NEAR(squares / n * 1024, 1, 0.01);  // variance 1 / in; the standard error of this estimate is 0.002
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(1024 * n));
  EXPECT_EQ(dummy_range("model.norm.weight", {8}, 1).offset, 1);
  EXPECT_EQ(dummy_range("model.layers.0.input_layernorm.weight", {8}, 0).offset, 0);
  EXPECT_EQ(dummy_range("model.layers.0.mlp.up_proj.bias", {8}, 1).offset, 0);
}

}  // namespace
}  // namespace fk
