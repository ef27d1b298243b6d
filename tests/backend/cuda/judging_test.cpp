// The judge's functions on the GPU give the same results as on the CPU.
#include <cmath>
#include <limits>

#include "core/device_judging.h"
#include "core/rng.h"
#include "tests/backend/cuda/on_device.h"

namespace fk {
namespace {

class CudaJudging : public OnDevice {
 protected:
  static DeviceJudging& judging() { return runtime().judging(); }
};

TEST_F(CudaJudging, PutsTensorsTogetherAsTheCpuDoes) {
  for (DType dtype : {DType::kU8, DType::kBF16, DType::kF16, DType::kF32, DType::kI64})
    for (int64_t n : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{4099}, int64_t{3'000'001}}) {
      Tensor set({n}, dtype), want({n}, dtype);
      Stream random(5, "bytes");
      auto* bytes = static_cast<uint8_t*>(set.view().data());
      for (size_t i = 0; i < set.view().size_bytes(); ++i) bytes[i] = static_cast<uint8_t>(random.u32(i));
      Tensor there = uploaded(set), got({n}, dtype, kCuda);
      Pieces pieces{.elements = n,
                    .element_bytes = static_cast<int64_t>(dtype_size(dtype)),
                    .key = 0x0123456789abcdef,
                    .set_elements = n};
      store_float_format(pieces, dtype);
      pieces.least_exponent = -9;
      pieces.most_exponent = 9;
      put_together(want.view().data(), set.view().data(), pieces);
      judging().put_together(got.view().data(), there.view().data(), pieces);
      EXPECT_TRUE(bytes_of(got) ==
                  std::vector<std::byte>(static_cast<std::byte*>(want.view().data()),
                                         static_cast<std::byte*>(want.view().data()) + want.view().size_bytes()))
          << n << " of " << dtype_name(dtype);
    }
}

TEST_F(CudaJudging, FindsEveryElementThatIsTooFarOff) {
  constexpr int64_t kN = 300'001;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Tensor b({kN}, DType::kF32);
  Stream random(6, "values");
  for (int64_t i = 0; i < kN; ++i)
    b.ptr<float>()[i] = static_cast<float>(random.uniform(static_cast<uint64_t>(i)) - 0.5);
  b.ptr<float>()[1000] = 8;           // the largest
  b.ptr<float>()[2000] = -kInfinity;  // counts as no size
  Apart allowed{.relative = 1e-3, .of_scale = 1e-4, .absolute = 1e-6};
  Tensor there = uploaded(b);
  auto apart = [&](int64_t at, float value) {
    Tensor a(b.view().spec());
    copy_between(b, a);
    a.ptr<float>()[at] = value;
    return judging().count_apart(uploaded(a), there, allowed);
  };
  EXPECT_EQ(apart(0, b.ptr<float>()[0]), 0);
  for (int64_t at : {int64_t{0}, int64_t{1000}, int64_t{77'777}, kN - 1}) {
    float was = b.ptr<float>()[at];
    double room = 1e-3 * std::abs(was) + 8e-4 + 1e-6;
    EXPECT_EQ(apart(at, static_cast<float>(was + 0.99 * room)), 0) << at;
    EXPECT_EQ(apart(at, static_cast<float>(was - 0.99 * room)), 0) << at;
    EXPECT_EQ(apart(at, static_cast<float>(was + 1.01 * room)), 1) << at;
    EXPECT_EQ(apart(at, static_cast<float>(was - 1.01 * room)), 1) << at;
    EXPECT_EQ(apart(at, std::nanf("")), 1) << at;
    EXPECT_EQ(apart(at, kInfinity), 1) << at;
  }
  EXPECT_EQ(apart(2000, kInfinity), 1);
  EXPECT_EQ(apart(2000, 0), 1);
}

TEST_F(CudaJudging, NeverAcceptsNoNumber) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    Tensor a({5}, dtype);
    std::memset(a.view().data(), 0xFF, a.view().size_bytes());  // NaN in each of them
    Tensor there = uploaded(a);
    EXPECT_EQ(judging().count_apart(there, there, {1, 1, 1}), 5) << dtype_name(dtype);
    std::memset(a.view().data(), 0, a.view().size_bytes());
    EXPECT_EQ(judging().count_apart(there, uploaded(a), {1, 1, 1}), 5) << dtype_name(dtype);
    EXPECT_EQ(judging().count_apart(uploaded(a), uploaded(a), {}), 0) << dtype_name(dtype);
  }
}

}  // namespace
}  // namespace fk
