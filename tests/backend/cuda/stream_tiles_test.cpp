// Products that stream their weights against sums in float64: tails of rows, features and columns, clusters of every
// size, several tiles a block, gated products, biases, results in f32.
#include "backend/cuda/matmul/stream_tiles.h"

#include <cmath>

#include "core/rng.h"
#include "tests/backend/cuda/on_device.h"
#include "tests/conformance/guarded_tensor.h"

namespace fk {
namespace {

using conformance::GuardedTensor;
using conformance::Placement;
using cuda::StreamEpilogue;

struct Product {
  int64_t rows, out_features, in_features;
  DType dtype = DType::kBF16;
  DType out_dtype = DType::kBF16;
  StreamEpilogue epilogue = StreamEpilogue::kPlain;
  bool bias = false;
};

class StreamTiles : public OnDevice {
 protected:
  static Tensor random(Shape shape, DType dtype, std::string_view name, double deviation) {
    Tensor t(shape, dtype);
    Stream stream(5, name);
    auto* at = static_cast<std::byte*>(t.view().data());
    for (int64_t i = 0; i < t.view().numel(); ++i)
      store_element(at + i * static_cast<int64_t>(dtype_size(dtype)), dtype,
                    deviation * stream.normal(static_cast<uint64_t>(i)));
    return t;
  }

  static std::vector<double> numbers(const View& v) {
    std::vector<double> list(static_cast<size_t>(v.numel()));
    const auto* at = static_cast<const std::byte*>(v.data());
    for (size_t i = 0; i < list.size(); ++i) list[i] = load_element(at + i * dtype_size(v.dtype()), v.dtype());
    return list;
  }

  static double activated(StreamEpilogue epilogue, double gate) {
    if (epilogue == StreamEpilogue::kSiluAndMul) return gate / (1 + std::exp(-gate));
    return 0.5 * gate * (1 + std::tanh(std::sqrt(2 / M_PI) * (gate + 0.044715 * gate * gate * gate)));
  }

  void check(const Product& p) {
    SCOPED_TRACE(testing::Message() << p.rows << " x " << p.out_features << " x " << p.in_features);
    const bool gated = p.epilogue != StreamEpilogue::kPlain;
    const int64_t columns = gated ? p.out_features / 2 : p.out_features;
    Tensor x = random({p.rows, p.in_features}, p.dtype, "x", 1);
    Tensor w = random({p.out_features, p.in_features}, p.dtype, "w", 1 / std::sqrt(static_cast<double>(p.in_features)));
    Tensor b = random({p.out_features}, p.dtype, "b", 0.5);
    Tensor w_there = uploaded(w), b_there = uploaded(b);
    GuardedTensor x_there(x.view(), Placement::kAligned, kCuda);
    GuardedTensor out(TensorSpec{{p.rows, columns}, p.out_dtype}, Placement::kStridedRows, kCuda);
    cuda::MatmulProblem problem{.rows = p.rows,
                                .out_features = p.out_features,
                                .in_features = p.in_features,
                                .x_stride = p.in_features,
                                .out_stride = p.rows > 1 ? out.view().stride(0) : columns,
                                .dtype = p.dtype,
                                .out_dtype = p.out_dtype,
                                .bias = p.bias};
    cuda::MatmulOperands operands{x_there.view().data(), w_there.view().data(), b_there.view().data(),
                                  out.view().data()};
    ASSERT_EQ(cuda::stream_tiles_refusal(problem, operands, p.epilogue), "");
    out.poison(std::byte{0xff});  // what is not written is no number
    cuda::stream_tiles(problem, operands, p.epilogue, runtime().stream());
    runtime().synchronize();
    out.look();
    EXPECT_EQ(out.fence_damage(), "");

    std::vector<double> xs = numbers(x), ws = numbers(w), bs = numbers(b);
    const std::vector<std::byte> written = out.bytes();
    const double unit = p.out_dtype == DType::kF32 ? 1e-6 : p.dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11;
    int64_t wrong = 0;
    for (int64_t r = 0; r < p.rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        auto sum = [&](int64_t row) {
          double all = p.bias ? bs[static_cast<size_t>(row)] : 0;
          for (int64_t k = 0; k < p.in_features; ++k)
            all += xs[static_cast<size_t>(r * p.in_features + k)] * ws[static_cast<size_t>(row * p.in_features + k)];
          return all;
        };
        const double want = gated ? activated(p.epilogue, sum(c)) * sum(c + columns) : sum(c);
        // Gate and up are rounded before they meet.
        const double allowed = (gated ? 4 : 1) * unit * (std::abs(want) + (gated ? 1 : 0)) + 1e-4;
        const double got =
            load_element(written.data() + static_cast<size_t>(r * columns + c) * dtype_size(p.out_dtype), p.out_dtype);
        wrong += std::abs(got - want) <= allowed ? 0 : 1;
      }
    EXPECT_EQ(wrong, 0);
  }
};

TEST_F(StreamTiles, AgreeWithSumsInFloat64) {
  for (int64_t rows : {1, 7, 8, 9, 15, 16})
    for (auto [out, in] : {std::pair<int64_t, int64_t>{64, 128}, {63, 72}, {200, 136}, {130, 520}, {257, 1032}})
      check({.rows = rows, .out_features = out, .in_features = in, .bias = rows % 2 == 0});
}

TEST_F(StreamTiles, ManyTilesAndLongRows) {
  check({.rows = 16, .out_features = 6144, .in_features = 2560});
  check({.rows = 13, .out_features = 2560, .in_features = 9728});
  check({.rows = 16, .out_features = 1024, .in_features = 14336});
  check({.rows = 14, .out_features = 20011, .in_features = 256, .out_dtype = DType::kF32});
}

TEST_F(StreamTiles, GatedAndHalfPrecision) {
  for (StreamEpilogue epilogue : {StreamEpilogue::kSiluAndMul, StreamEpilogue::kGeluTanhAndMul})
    for (DType dtype : {DType::kBF16, DType::kF16}) {
      check({.rows = 16,
             .out_features = 2 * 1000,
             .in_features = 1024,
             .dtype = dtype,
             .out_dtype = dtype,
             .epilogue = epilogue});
      check({.rows = 11,
             .out_features = 2 * 9000,
             .in_features = 200,
             .dtype = dtype,
             .out_dtype = dtype,
             .epilogue = epilogue,
             .bias = true});
      check({.rows = 10,
             .out_features = 2 * 33,
             .in_features = 80,
             .dtype = dtype,
             .out_dtype = dtype,
             .epilogue = epilogue});
    }
}

}  // namespace
}  // namespace fk
