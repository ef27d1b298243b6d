// The product before a block of experts that adds the router's terms, against sums in float64, and the experts that are
// chosen by these, against the same kernels with the choice given.
#include "backend/cuda/experts/routed_output.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/cuda/device/capabilities.h"
#include "backend/cuda/experts/one_token.h"
#include "core/rng.h"
#include "tests/backend/cuda/on_device.h"

namespace fk {
namespace {

struct OutputSizes {
  int experts, top_k, hidden, features, dense, length;
  bool softmax_of_all = false;
  double residual = 1;  // its deviation
};

constexpr double kEps = 1e-6, kOffset = 1;

class RoutedOutputs : public OnDevice, public testing::WithParamInterface<OutputSizes> {
 protected:
  Tensor random(Shape shape, DType dtype, double deviation) {
    Tensor t(shape, dtype);
    const Stream stream(7, std::to_string(++drawn_));
    for (int64_t i = 0; i < t.view().numel(); ++i) put(t, i, deviation * stream.normal(static_cast<uint64_t>(i)));
    return t;
  }
  static std::byte* address(const Tensor& t, int64_t i) {
    return static_cast<std::byte*>(t.view().data()) + i * static_cast<int64_t>(dtype_size(t.view().dtype()));
  }
  static void put(Tensor& t, int64_t i, double x) { store_element(address(t, i), t.view().dtype(), x); }
  static double at(const Tensor& t, int64_t i) { return load_element(address(t, i), t.view().dtype()); }
  static double rounded(DType dtype, double x) {
    std::byte bytes[8];
    store_element(bytes, dtype, x);
    return load_element(bytes, dtype);
  }
  // Row `row` of a matrix times x.
  static double product(const Tensor& matrix, int64_t row, const Tensor& x) {
    const int64_t length = x.view().numel();
    double sum = 0;
    for (int64_t k = 0; k < length; ++k) sum += at(matrix, row * length + k) * at(x, k);
    return sum;
  }

  int drawn_ = 0;
};

TEST_P(RoutedOutputs, ChooseTheExpertsOfTheNormedStream) {
  const auto [experts, top_k, hidden, features, dense, length, softmax_of_all, deviation] = GetParam();
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    if (dtype == DType::kF16 && deviation > 1000) continue;
    const Tensor x = random({length}, dtype, 1), weight = random({hidden, length}, dtype, 0.1),
                 bias = random({hidden}, dtype, 1), residual = random({hidden}, dtype, deviation),
                 norm = random({hidden}, dtype, 0.3), router = random({experts, hidden}, dtype, 0.2),
                 gate = random({hidden}, dtype, 0.1), gate_up = random({experts, 2 * features, hidden}, dtype, 0.1),
                 down = random({experts, hidden, features}, dtype, 0.1),
                 dense_gate_up = random({2 * dense, hidden}, dtype, 0.1),
                 dense_down = random({hidden, dense}, dtype, 0.1);
    const Tensor x_there = uploaded(x), weight_there = uploaded(weight), bias_there = uploaded(bias),
                 residual_there = uploaded(residual), norm_there = uploaded(norm), router_there = uploaded(router),
                 gate_there = uploaded(gate), gate_up_there = uploaded(gate_up), down_there = uploaded(down),
                 dense_gate_up_there = uploaded(dense_gate_up), dense_down_there = uploaded(dense_down);
    const cuda::TermPlaces places{experts + 1};
    Tensor sums({places.all()}, DType::kI64);
    std::fill_n(sums.ptr<int64_t>(), places.all(), 0);
    const Tensor sums_there = uploaded(sums);
    Tensor squares({cuda::squares_of_stream(hidden)}, DType::kF32, kCuda), stream_there({hidden}, dtype, kCuda),
        between({top_k, features}, dtype, kCuda), wide({dense}, dtype, kCuda), out({hidden}, dtype, kCuda),
        given({hidden}, dtype, kCuda);
    const cuda::RoutedOutput output{.x = x_there.view().data(),
                                    .weight = weight_there.view().data(),
                                    .bias = bias_there.view().data(),
                                    .residual = residual_there.view().data(),
                                    .router = router_there.view().data(),
                                    .gate = gate_there.view().data(),
                                    .length = length,
                                    .to = {.stream = stream_there.view().data(),
                                           .norm = norm_there.view().data(),
                                           .norm_offset = static_cast<float>(kOffset),
                                           .eps = static_cast<float>(kEps),
                                           .hidden = hidden,
                                           .sums = reinterpret_cast<unsigned long long*>(sums_there.ptr<int64_t>()),
                                           .squares = squares.ptr<float>(),
                                           .experts = experts},
                                    .dtype = dtype};
    if (!cuda::has_hopper_launches()) GTEST_SKIP() << "it needs Hopper";
    ASSERT_EQ(cuda::routed_output_refusal(output), "");
    cuda::routed_output(output, runtime().stream());
    cuda::OneTokenExperts call{.gate_up = gate_up_there.view().data(),
                               .down = down_there.view().data(),
                               .between = between.view().data(),
                               .out = out.view().data(),
                               .experts = experts,
                               .top_k = top_k,
                               .hidden = hidden,
                               .features = features,
                               .dtype = dtype,
                               .routed = true,
                               .softmax_of_all = softmax_of_all,
                               .dense_between = wide.view().data(),
                               .dense_down = dense_down_there.view().data(),
                               .dense_features = dense,
                               .routed_stream = output.to,
                               .dense_gate_up = dense_gate_up_there.view().data()};
    ASSERT_EQ(cuda::one_token_experts_refusal(call), "");
    cuda::run_one_token_experts(call, runtime().stream());
    runtime().synchronize();

    const Tensor stream = downloaded(stream_there), got = downloaded(out);
    double mean = 0;
    for (int i = 0; i < hidden; ++i) {
      const double mixed = product(weight, i, x) + at(bias, i), want = mixed + at(residual, i);
      EXPECT_NEAR(at(stream, i), want, 2 * dtype_epsilon(dtype) * (std::abs(mixed) + std::abs(want))) << "row " << i;
      mean += at(stream, i) * at(stream, i) / hidden;
    }
    Tensor exact({hidden}, DType::kF64), normed({hidden}, dtype);
    for (int i = 0; i < hidden; ++i) {
      put(exact, i, at(stream, i) / std::sqrt(mean + kEps) * (at(norm, i) + kOffset));
      put(normed, i, at(exact, i));
    }
    std::vector<double> logits(static_cast<size_t>(experts));
    for (int e = 0; e < experts; ++e) logits[static_cast<size_t>(e)] = product(router, e, exact);
    std::vector<int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    auto exponential = [&](int i) {
      return std::exp(logits[static_cast<size_t>(order[static_cast<size_t>(i)])] -
                      logits[static_cast<size_t>(order[0])]);
    };
    double all = 0;
    for (int i = 0; i < (softmax_of_all ? experts : top_k); ++i) all += exponential(i);
    Tensor ids({top_k}, DType::kI32), weights({top_k}, DType::kF32);
    for (int i = 0; i < top_k; ++i) {
      ids.ptr<int32_t>()[i] = order[static_cast<size_t>(i)];
      weights.ptr<float>()[i] = static_cast<float>(exponential(i) / all);
    }
    const Tensor ids_there = uploaded(ids), weights_there = uploaded(weights), normed_there = uploaded(normed);
    cuda::run_one_token_experts({.x = normed_there.view().data(),
                                 .ids = ids_there.ptr<int32_t>(),
                                 .weights = weights_there.ptr<float>(),
                                 .gate_up = gate_up_there.view().data(),
                                 .down = down_there.view().data(),
                                 .between = between.view().data(),
                                 .out = given.view().data(),
                                 .experts = experts,
                                 .top_k = top_k,
                                 .hidden = hidden,
                                 .features = features,
                                 .dtype = dtype},
                                runtime().stream());
    runtime().synchronize();

    const Tensor of_experts = downloaded(given);
    Tensor activated({dense}, dtype);
    for (int i = 0; i < dense; ++i) {
      const double before = rounded(dtype, product(dense_gate_up, i, normed));
      put(activated, i, before / (1 + std::exp(-before)) * rounded(dtype, product(dense_gate_up, dense + i, normed)));
    }
    const double share = 1 / (1 + std::exp(-product(gate, 0, exact)));
    double largest = 0, largest_beside = 0;
    for (int i = 0; i < hidden; ++i) {
      largest = std::max(largest, std::abs(at(of_experts, i)));
      largest_beside = std::max(largest_beside, std::abs(share * product(dense_down, i, activated)));
    }
    ASSERT_GT(largest, 0.001);
    ASSERT_GT(largest_beside, 0.001);
    for (int i = 0; i < hidden; ++i)
      EXPECT_NEAR(at(got, i), at(of_experts, i) + share * product(dense_down, i, activated),
                  6 * dtype_epsilon(dtype) * (largest + largest_beside))
          << "row " << i << " of " << dtype_name(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, RoutedOutputs,
                         testing::Values(OutputSizes{128, 10, 2048, 16, 512, 4096},
                                         OutputSizes{3, 3, 64, 40, 56, 256, true},
                                         OutputSizes{60, 4, 200, 24, 104, 72, true}, OutputSizes{37, 32, 72, 24, 8, 8},
                                         // Terms that need other sums than the first (term_scale.h).
                                         OutputSizes{512, 10, 128, 40, 64, 64, false, 0x1p22},
                                         OutputSizes{64, 8, 128, 40, 64, 64, false, 0x1p55}),
                         [](const auto& p) { return std::to_string(p.param.experts) + "_" + std::to_string(p.index); });

}  // namespace
}  // namespace fk
