// The experts of one token whose kernels make the router's choice, against the same kernels with the choice given, and
// the product beside them against sums in float64.
#include "backend/cuda/experts/one_token.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/rng.h"
#include "tests/backend/cuda/on_device.h"

namespace fk {
namespace {

struct Sizes {
  int experts, top_k, hidden, features, dense;
  double step = 0.5;    // logits are multiples of it, so that some are equal
  bool shared = false;  // the product beside the experts has a gate; weights are a softmax over all experts
};

class RoutedExperts : public OnDevice, public testing::WithParamInterface<Sizes> {
 protected:
  Tensor random(Shape shape, DType dtype, double deviation, double step = 0) {
    Tensor t(shape, dtype);
    const Stream stream(5, std::to_string(++drawn_));
    auto* at = static_cast<std::byte*>(t.view().data());
    for (int64_t i = 0; i < t.view().numel(); ++i, at += dtype_size(dtype)) {
      double x = deviation * stream.normal(static_cast<uint64_t>(i));
      if (step > 0) x = std::round(x / step) * step;
      store_element(at, dtype, x);
    }
    return t;
  }
  static double at(const Tensor& t, int64_t i) {
    const auto size = static_cast<int64_t>(dtype_size(t.view().dtype()));
    return load_element(static_cast<const std::byte*>(t.view().data()) + i * size, t.view().dtype());
  }

  int drawn_ = 0;
};

TEST_P(RoutedExperts, AreThoseOfTheLargestLogits) {
  const auto [experts, top_k, hidden, features, dense, step, shared] = GetParam();
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    const Tensor x = random({hidden}, dtype, 1), logits = random({experts}, DType::kF32, 4, step),
                 scale = random({experts}, dtype, 1), gate_up = random({experts, 2 * features, hidden}, dtype, 0.1),
                 down = random({experts, hidden, features}, dtype, 0.1), wide = random({dense}, dtype, 1),
                 dense_down = random({hidden, dense}, dtype, 0.1), gate = random({1}, DType::kF32, 1);
    const double factor = 0.125;

    std::vector<int32_t> order(static_cast<size_t>(experts));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return at(logits, a) > at(logits, b); });
    Tensor ids({top_k}, DType::kI32), weights({top_k}, DType::kF32);
    double sum = 0;
    auto exponential = [&](int i) { return std::exp((at(logits, order[i]) - at(logits, order[0])) * factor); };
    for (int i = 0; i < (shared ? experts : top_k); ++i) sum += exponential(i);
    for (int i = 0; i < top_k; ++i) {
      ids.ptr<int32_t>()[i] = order[static_cast<size_t>(i)];
      weights.ptr<float>()[i] =
          static_cast<float>(exponential(i) / sum * (shared ? 1 : at(scale, order[static_cast<size_t>(i)])));
    }

    const Tensor x_there = uploaded(x), logits_there = uploaded(logits), scale_there = uploaded(scale),
                 gate_up_there = uploaded(gate_up), down_there = uploaded(down), wide_there = uploaded(wide),
                 dense_there = uploaded(dense_down), ids_there = uploaded(ids), weights_there = uploaded(weights),
                 gate_there = uploaded(gate);
    Tensor between({top_k, features}, dtype, kCuda), given({hidden}, dtype, kCuda), routed({hidden}, dtype, kCuda),
        beside({hidden}, dtype, kCuda);
    cuda::OneTokenExperts call{.x = x_there.view().data(),
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
                               .gate = cuda::ExpertGate::kGeluTanh,
                               .dtype = dtype};
    ASSERT_EQ(cuda::one_token_experts_refusal(call), "");
    cuda::run_one_token_experts(call, runtime().stream());
    call.ids = nullptr;
    call.weights = nullptr;
    call.out = routed.view().data();
    call.routed = true;
    call.logits = logits_there.ptr<float>();
    call.logit_scale = static_cast<float>(factor);
    call.softmax_of_all = shared;
    if (!shared) call.expert_scale = scale_there.view().data();
    if (dense > 0) {
      call.dense_between = wide_there.view().data();
      call.dense_down = dense_there.view().data();
      call.dense_out = beside.view().data();
      call.dense_features = dense;
      if (shared) call.dense_gate = gate_there.ptr<float>();
    }
    ASSERT_EQ(cuda::one_token_experts_refusal(call), "");
    cuda::run_one_token_experts(call, runtime().stream());
    runtime().synchronize();

    const Tensor want = downloaded(given), got = downloaded(routed), got_beside = downloaded(beside);
    double largest = 0;
    for (int i = 0; i < hidden; ++i) largest = std::max(largest, std::abs(at(want, i)));
    ASSERT_GT(largest, 0.001);  // small where the weights are a softmax over 500 experts
    for (int i = 0; i < hidden; ++i) {
      double product = 0;
      for (int k = 0; k < dense; ++k) product += at(wide, k) * at(dense_down, int64_t{i} * dense + k);
      const double added = shared ? product / (1 + std::exp(-at(gate, 0))) : 0;
      EXPECT_NEAR(at(got, i), at(want, i) + added, 4 * dtype_epsilon(dtype) * (largest + std::abs(added)))
          << "row " << i;
      if (dense > 0 && !shared) {
        EXPECT_NEAR(at(got_beside, i), product, 2 * dtype_epsilon(dtype) * (std::abs(product) + 1)) << "row " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, RoutedExperts,
                         testing::Values(Sizes{128, 8, 2816, 704, 2112}, Sizes{128, 32, 64, 40, 0},
                                         Sizes{3, 3, 64, 40, 104}, Sizes{61, 5, 200, 24, 1000}, Sizes{2, 1, 72, 648, 8},
                                         Sizes{512, 10, 128, 40, 104, 0.001, true},
                                         Sizes{500, 10, 64, 40, 40, 0.5, true}, Sizes{512, 32, 64, 24, 0, 0.01},
                                         // All logits are equal: the first experts.
                                         Sizes{512, 7, 64, 24, 64, 100, true}, Sizes{40, 32, 64, 24, 8, 100},
                                         Sizes{60, 4, 96, 88, 352, 0.1, true}),
                         [](const auto& p) { return std::to_string(p.param.experts) + "_" + std::to_string(p.index); });

TEST_F(OnDevice, RoutedExpertsAreAtMost512) {
  EXPECT_NE(cuda::one_token_experts_refusal({.experts = 513, .top_k = 1, .hidden = 8, .features = 8, .routed = true}),
            "");
  EXPECT_NE(cuda::one_token_experts_refusal({.experts = 99, .top_k = 33, .hidden = 8, .features = 8, .routed = true}),
            "");
}

}  // namespace
}  // namespace fk
