// Memory of the device: zero at first, kept by the arena from step to step, filled with dummy weights as on the CPU.
#include <cmath>

#include "core/rng.h"
#include "models/dummy_weights.h"
#include "tests/backend/cuda/on_device.h"

namespace fk {
namespace {

class CudaMemory : public OnDevice {};

TEST_F(CudaMemory, IsZeroAndMovesBothWays) {
  for (size_t size : {size_t{1}, size_t{4097}, (size_t{5} << 20) + 3}) {
    Buffer buffer(size, kCuda);
    EXPECT_EQ(buffer.device(), kCuda);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 256, 0u);
    std::vector<std::byte> host(size, std::byte{1});
    runtime().download(host.data(), buffer.data(), size);
    EXPECT_EQ(std::count(host.begin(), host.end(), std::byte{0}), static_cast<int64_t>(size));
    for (size_t i = 0; i < size; ++i) host[i] = static_cast<std::byte>(i * 7);
    runtime().upload(buffer.data(), host.data(), size);
    std::vector<std::byte> sent = host;
    std::fill(host.begin(), host.end(), std::byte{9});  // an upload's source may change when the call returns
    std::vector<std::byte> back(size);
    runtime().download(back.data(), buffer.data(), size);
    EXPECT_EQ(back, sent);
  }
}

TEST_F(CudaMemory, OneValueThatIsNotFiniteIsFound) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (int64_t count : {1, 33, 100'001}) {
      Tensor host({count}, dtype);
      for (int64_t i = 0; i < count; ++i) set(host, static_cast<double>(i % 97) - 48, i);
      EXPECT_EQ(runtime().all_finite(uploaded(host)), true);
      for (int64_t at : {int64_t{0}, count / 2, count - 1})
        for (float bad : {INFINITY, -INFINITY, NAN}) {
          const double before = get(host, at);
          set(host, bad, at);
          EXPECT_EQ(runtime().all_finite(uploaded(host)), false) << dtype_name(dtype) << ", value " << at;
          set(host, before, at);
        }
    }
}

TEST_F(CudaMemory, ArenaKeepsItsMemoryFromStepToStep) {
  Arena arena(kCuda);
  auto step = [&] {
    arena.reset();
    View a = arena.make({{1000, 300}, DType::kF32}), b = arena.make({{7}, DType::kBF16});
    EXPECT_EQ(a.device(), kCuda);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data()) % 256, 0u);
    return a.data();
  };
  step();
  step();  // merges the chunks of the first step
  size_t capacity = arena.capacity_bytes();
  void* first = step();
  EXPECT_EQ(step(), first);
  EXPECT_EQ(arena.capacity_bytes(), capacity);
}

TEST_F(CudaMemory, TooMuchIsRefusedWithTheNumbers) {
  try {
    Buffer buffer(size_t{1} << 44, kCuda);
    FAIL() << "the device gave 16 TiB";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("16384.00 GiB were asked for"), std::string::npos) << error.what();
  }
  Buffer small(1024, kCuda);  // and the device still works
}

TEST_F(CudaMemory, DummyWeightsEqualTheCpusToTheBit) {
  ThreadPool pool(2);
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32})
    for (int64_t count : {1, 7, 8, 1000, 300001})
      for (int64_t first : {0, 3, 8, 123457}) {
        for (DummyRange range : {DummyRange{0, 0.0441941f}, DummyRange{1, 0.1f}}) {
          Tensor host({count}, dtype), there({count}, dtype, kCuda);
          fill_dummy(host, 11, "model.layers.3.mlp.down_proj.weight", range, pool, first);
          runtime().fill_dummy(there, stream_key(11, "model.layers.3.mlp.down_proj.weight"), range.offset, range.scale,
                               first);
          const auto* expected = static_cast<const std::byte*>(host.view().data());
          std::vector<std::byte> bytes = bytes_of(there);
          EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), expected)) << dtype_name(dtype) << count << "+" << first;
        }
      }
}

}  // namespace
}  // namespace fk
