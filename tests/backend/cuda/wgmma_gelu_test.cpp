// Products that end with the exact gelu against sums in float64: one tile or many for a block, rows that fill no tile,
// a cluster of which one block has no rows, more and fewer stages than the ring.
#include "backend/cuda/matmul/wgmma_gelu.h"

#include <cmath>

#include "core/rng.h"
#include "tests/backend/cuda/on_device.h"
#include "tests/conformance/guarded_tensor.h"

namespace fk {
namespace {

using conformance::GuardedTensor;
using conformance::Placement;

class WgmmaGelu : public OnDevice {
 protected:
  static Tensor random(Shape shape, DType dtype, std::string_view name, double deviation) {
    Tensor t(shape, dtype);
    Stream stream(6, name);
    auto* at = static_cast<std::byte*>(t.view().data());
    for (int64_t i = 0; i < t.view().numel(); ++i)
      store_element(at + i * static_cast<int64_t>(dtype_size(dtype)), dtype,
                    deviation * stream.normal(static_cast<uint64_t>(i)));
    return t;
  }

  static std::vector<float> numbers(const View& v) {
    std::vector<float> list(static_cast<size_t>(v.numel()));
    const auto* at = static_cast<const std::byte*>(v.data());
    for (size_t i = 0; i < list.size(); ++i)
      list[i] = static_cast<float>(load_element(at + i * dtype_size(v.dtype()), v.dtype()));
    return list;
  }

  // Every `step`-th result is compared; all must be numbers.
  void check(int64_t rows, int64_t features, int64_t length, DType dtype = DType::kBF16, int64_t step = 1) {
    SCOPED_TRACE(testing::Message() << rows << " x " << features << " x " << length);
    Tensor x = random({rows, length}, dtype, "x", 1);
    Tensor w = random({features, length}, dtype, "w", 2 / std::sqrt(static_cast<double>(length)));
    Tensor b = random({features}, dtype, "b", 0.5);
    Tensor w_there = uploaded(w), b_there = uploaded(b);
    GuardedTensor x_there(x.view(), Placement::kAligned, kCuda);
    GuardedTensor out(TensorSpec{{rows, features}, dtype}, Placement::kAligned, kCuda);
    const cuda::MatmulProblem problem{.rows = rows,
                                      .out_features = features,
                                      .in_features = length,
                                      .x_stride = length,
                                      .out_stride = features,
                                      .dtype = dtype,
                                      .out_dtype = dtype,
                                      .bias = true};
    const cuda::MatmulOperands operands{x_there.view().data(), w_there.view().data(), b_there.view().data(),
                                        out.view().data()};
    if (std::string_view why = cuda::wgmma_gelu_refusal(problem, operands); !why.empty()) GTEST_SKIP() << why;
    out.poison(std::byte{0xff});  // what is not written is no number
    cuda::multiply_wgmma_gelu(problem, operands, runtime().stream());
    runtime().synchronize();
    out.look();
    EXPECT_EQ(out.fence_damage(), "");

    const std::vector<float> xs = numbers(x), ws = numbers(w), bs = numbers(b);
    const std::vector<std::byte> written = out.bytes();
    const double unit = dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11;
    int64_t wrong = 0;
    for (int64_t i = 0; i < rows * features; ++i) {
      const double got = load_element(written.data() + static_cast<size_t>(i) * dtype_size(dtype), dtype);
      if (i % step != 0) {
        wrong += std::isfinite(got) ? 0 : 1;
        continue;
      }
      const int64_t r = i / features, c = i % features;
      double sum = bs[static_cast<size_t>(c)];
      for (int64_t k = 0; k < length; ++k)
        sum += double{xs[static_cast<size_t>(r * length + k)]} * ws[static_cast<size_t>(c * length + k)];
      const double want = 0.5 * sum * std::erfc(-sum / std::sqrt(2.0));
      wrong += std::abs(got - want) <= unit * std::abs(want) + 1e-4 ? 0 : 1;
    }
    EXPECT_EQ(wrong, 0);
  }
};

TEST_F(WgmmaGelu, AgreesWithSumsInFloat64) {
  for (int64_t rows : {1, 64, 128, 129, 300})
    for (auto [features, length] : {std::pair<int64_t, int64_t>{128, 64}, {256, 448}, {384, 512}})
      check(rows, features, length);
  check(200, 256, 320, DType::kF16);
}

TEST_F(WgmmaGelu, ManyTiles) {
  check(128 * 300, 256, 128, DType::kBF16, 997);
  check(4096, 4096, 1024, DType::kBF16, 4099);
}

}  // namespace
}  // namespace fk
