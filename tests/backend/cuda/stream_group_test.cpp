// Groups of products against sums in float64, with every split: matrices of many tiles and of a few rows, lengths of
// several rounds, activations, and the rows that prologues make.
#include "backend/cuda/matmul/stream_group.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>

#include "core/rng.h"
#include "tests/backend/cuda/on_device.h"
#include "tests/conformance/guarded_tensor.h"

namespace fk {
namespace {

using conformance::GuardedTensor;
using conformance::Placement;
using cuda::GroupActivation;

class StreamGroupTest : public OnDevice {
 protected:
  // Numbers of a tensor on the device, as it rounds them.
  struct Numbers {
    Tensor there;
    std::vector<double> host;
    int64_t columns = 1;

    double operator()(int64_t row, int64_t column) const { return host[static_cast<size_t>(row * columns + column)]; }
    double operator()(int64_t i) const { return host[static_cast<size_t>(i)]; }
  };

  Numbers random(Shape shape, double deviation, double mean = 0) {
    Tensor t(shape, dtype_);
    Stream stream(7, std::to_string(++drawn_));
    Numbers n{Tensor(t.view().spec(), kCuda), {}, shape[-1]};
    auto* at = static_cast<std::byte*>(t.view().data());
    for (int64_t i = 0; i < t.view().numel(); ++i, at += dtype_size(dtype_)) {
      store_element(at, dtype_, mean + deviation * stream.normal(static_cast<uint64_t>(i)));
      n.host.push_back(load_element(at, dtype_));
    }
    copy_between(t, n.there);
    return n;
  }

  double rounded(double x) const {
    std::byte element[8];
    store_element(element, dtype_, x);
    return load_element(element, dtype_);
  }

  static double activated(GroupActivation activation, double x) {
    if (activation == GroupActivation::kTanh) return std::tanh(x);
    if (activation == GroupActivation::kSigmoid) return 1 / (1 + std::exp(-x));
    if (activation == GroupActivation::kRelu2) return x < 0 ? 0 : x * x;
    return x;
  }
  static bool is_gated(GroupActivation activation) {
    return activation == GroupActivation::kSiluAndMul || activation == GroupActivation::kGeluTanhAndMul;
  }
  static double gate(GroupActivation activation, double x) {
    if (activation == GroupActivation::kSiluAndMul) return x / (1 + std::exp(-x));
    return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }

  struct Product {
    int64_t features;
    GroupActivation activation = GroupActivation::kNone;
    bool bias = false;
    bool wide = false;  // the result is f32
  };
  // x of a product: token, product, channel.
  using Rows = std::function<double(int64_t, size_t, int64_t)>;

  // Runs the group with every split and compares all results.
  void check(int64_t rows, int64_t length, const std::vector<Product>& products, cuda::StreamGroup group, const Rows& x,
             const std::vector<Numbers>* inputs = nullptr, const std::vector<Numbers>* mixtures = nullptr) {
    SCOPED_TRACE(testing::Message() << rows << " rows of " << length << ", " << dtype_name(dtype_));
    std::vector<Numbers> weights, biases;
    std::vector<std::optional<GuardedTensor>> outs(products.size());
    for (size_t i = 0; i < products.size(); ++i) {
      const Product& p = products[i];
      const int64_t matrix = is_gated(p.activation) ? 2 * p.features : p.features;
      weights.push_back(random({matrix, length}, 1 / std::sqrt(static_cast<double>(length))));
      biases.push_back(random({matrix}, 0.5));
      outs[i].emplace(TensorSpec{{rows, p.features}, dtype_of(p)}, Placement::kStridedRows, kCuda);
      cuda::GroupedProduct grouped{.weight = weights[i].there, .out = outs[i]->view(), .activation = p.activation};
      if (p.bias) grouped.bias = biases[i].there;
      if (inputs != nullptr) grouped.x = (*inputs)[i].there.view();
      if (mixtures != nullptr) grouped.mixture = (*mixtures)[i].there.view();
      group.products.add(grouped);
    }
    ASSERT_EQ(cuda::stream_group_refusal(group), "");
    for (int cut = 0; cut < cuda::stream_group_cuts(group); ++cut) {
      SCOPED_TRACE(testing::Message() << "split " << cut);
      for (auto& out : outs) out->poison(std::byte{0xff});  // what is not written is no number
      cuda::stream_group_with_cut(group, cut, runtime().stream());
      runtime().synchronize();
      for (size_t i = 0; i < products.size(); ++i)
        compare(rows, length, products[i], i, weights[i], biases[i], x, *outs[i]);
    }
  }

  DType dtype_of(const Product& p) const { return p.wide ? DType::kF32 : dtype_; }

  void compare(int64_t rows, int64_t length, const Product& p, size_t which, const Numbers& weight, const Numbers& bias,
               const Rows& x, GuardedTensor& out) {
    out.look();
    EXPECT_EQ(out.fence_damage(), "") << "product " << which;
    const std::vector<std::byte> written = out.bytes();
    const DType dtype = dtype_of(p);
    // Results in f32 have only the errors of their rows, of which some elements may be rounded the other way.
    const double unit = (dtype_ == DType::kBF16 ? 0x1p-8 : 0x1p-11) / (p.wide ? 4 : 1);
    int64_t wrong = 0;
    std::vector<double> row(static_cast<size_t>(length));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < length; ++k) row[static_cast<size_t>(k)] = x(r, which, k);
      for (int64_t c = 0; c < p.features; ++c) {
        auto sum = [&](int64_t of) {
          double all = p.bias ? bias(of) : 0;
          for (int64_t k = 0; k < length; ++k) all += row[static_cast<size_t>(k)] * weight(of, k);
          return all;
        };
        double want = sum(c);
        if (is_gated(p.activation))
          want = gate(p.activation, want) * sum(c + p.features);
        else
          want = activated(p.activation, want);
        const double got =
            load_element(written.data() + static_cast<size_t>(r * p.features + c) * dtype_size(dtype), dtype);
        // Sums are rounded before an activation, which at most doubles that error, or multiplies it by the other half.
        const double allowed = 4 * unit * (std::abs(want) + 0.5);
        wrong += std::abs(got - want) <= allowed ? 0 : 1;
      }
    }
    EXPECT_EQ(wrong, 0) << "product " << which;
  }

  DType dtype_ = DType::kBF16;
  int drawn_ = 0;
};

TEST_F(StreamGroupTest, EachProductHasItsOwnRowsAndActivation) {
  const std::vector<Product> products = {{300},
                                         {7, GroupActivation::kTanh, true},
                                         {64, GroupActivation::kSigmoid},
                                         {129, GroupActivation::kRelu2},
                                         {61, GroupActivation::kSiluAndMul, true}};
  for (DType dtype : {DType::kBF16, DType::kF16})
    for (int64_t rows : {1, 3, 8})
      for (int64_t length : {64, 328, 2568}) {
        dtype_ = dtype;
        std::vector<Numbers> inputs;
        for (size_t i = 0; i < products.size(); ++i) inputs.push_back(random({rows, length}, 1));
        check(
            rows, length, products, {}, [&](int64_t t, size_t i, int64_t k) { return inputs[i](t, k); }, &inputs);
      }
}

TEST_F(StreamGroupTest, RowsAreNormedWithTheirResidual) {
  for (DType dtype : {DType::kBF16, DType::kF16})
    for (int64_t rows : {1, 2, 8})
      for (int64_t length : {64, 2568})
        for (double offset : {0.0, 1.0}) {
          dtype_ = dtype;
          Numbers x = random({rows, length}, 1), residual = random({rows, length}, 2),
                  weight = random({length}, 0.2, 1 - offset);
          GuardedTensor sums(TensorSpec{{rows, length}, dtype_}, Placement::kAligned, kCuda),
              kept(TensorSpec{{rows, length}, dtype_}, Placement::kAligned, kCuda);
          cuda::StreamGroup group;
          group.prologue = cuda::RmsNormRows{.x = x.there,
                                             .residual = residual.there.view(),
                                             .weight = weight.there,
                                             .weight_offset = offset,
                                             .eps = 1e-3,
                                             .sum_out = sums.view(),
                                             .normed_out = kept.view()};
          auto sum = [&](int64_t t, int64_t k) { return rounded(x(t, k) + residual(t, k)); };
          std::vector<double> scales;
          for (int64_t t = 0; t < rows; ++t) {
            double squares = 0;
            for (int64_t k = 0; k < length; ++k) squares += sum(t, k) * sum(t, k);
            scales.push_back(1 / std::sqrt(squares / static_cast<double>(length) + 1e-3));
          }
          auto normed = [&](int64_t t, int64_t k) {
            return rounded(sum(t, k) * scales[static_cast<size_t>(t)] * (weight(k) + offset));
          };
          sums.poison(std::byte{0xff});
          kept.poison(std::byte{0xff});
          check(rows, length,
                {{100},
                 {9},
                 {40, GroupActivation::kSiluAndMul},
                 {.features = 1, .wide = true},
                 {.features = 70, .wide = true}},
                group, [&](int64_t t, size_t, int64_t k) { return normed(t, k); });
          for (GuardedTensor* made : {&sums, &kept}) {
            made->look();
            EXPECT_EQ(made->fence_damage(), "");
          }
          const std::vector<std::byte> of_sums = sums.bytes(), of_rows = kept.bytes();
          for (int64_t i = 0; i < rows * length; ++i) {
            const auto at = static_cast<size_t>(i) * dtype_size(dtype_);
            ASSERT_EQ(load_element(of_sums.data() + at, dtype_), sum(i / length, i % length));
            const double want = normed(i / length, i % length);  // in float it may be rounded to the other side
            ASSERT_NEAR(load_element(of_rows.data() + at, dtype_), want,
                        2 * dtype_epsilon(dtype_) * (std::abs(want) + 1));
          }
        }
}

TEST_F(StreamGroupTest, RowsAreNormedAlone) {
  for (int64_t rows : {1, 3, 8})
    for (int64_t length : {64, 2568, 4104}) {
      Numbers x = random({rows, length}, 2), weight = random({length}, 0.2, 1);
      cuda::StreamGroup group;
      group.prologue = cuda::RmsNormRows{.x = x.there, .weight = weight.there, .eps = 1e-3};
      std::vector<double> scales;
      for (int64_t t = 0; t < rows; ++t) {
        double squares = 0;
        for (int64_t k = 0; k < length; ++k) squares += x(t, k) * x(t, k);
        scales.push_back(1 / std::sqrt(squares / static_cast<double>(length) + 1e-3));
      }
      check(rows, length, {{100}, {9}}, group, [&](int64_t t, size_t, int64_t k) {
        return rounded(x(t, k) * scales[static_cast<size_t>(t)] * weight(k));
      });
    }
}

TEST_F(StreamGroupTest, RowsAreNormedBeforeAndAfterTheirResidual) {
  for (DType dtype : {DType::kBF16, DType::kF16})
    for (int64_t rows : {1, 2, 5})
      for (int64_t length : {64, 2568}) {
        dtype_ = dtype;
        const double eps = 1e-3, size = static_cast<double>(length);
        Numbers x = random({rows, length}, 3), residual = random({rows, length}, 2), post = random({length}, 0.2, 1),
                second = random({length}, 0.3, 1);
        std::vector<Numbers> weights;  // of each product
        for (int i = 0; i < 3; ++i) weights.push_back(random({length}, 0.2, 1));
        GuardedTensor sums(TensorSpec{{rows, length}, dtype_}, Placement::kAligned, kCuda),
            seconds(TensorSpec{{rows, length}, dtype_}, Placement::kAligned, kCuda);
        cuda::StreamGroup group;
        group.prologue = cuda::PostNormRows{.x = x.there,
                                            .post_weight = post.there,
                                            .residual = residual.there.view(),
                                            .weight = second.there,
                                            .eps = eps,
                                            .sum_out = sums.view(),
                                            .second_weight = second.there.view(),
                                            .second_out = seconds.view()};
        std::vector<double> sum, scales;
        for (int64_t t = 0; t < rows; ++t) {
          double squares = 0, of_sum = 0;
          for (int64_t k = 0; k < length; ++k) squares += x(t, k) * x(t, k);
          for (int64_t k = 0; k < length; ++k) {
            sum.push_back(rounded(rounded(x(t, k) / std::sqrt(squares / size + eps) * post(k)) + residual(t, k)));
            of_sum += sum.back() * sum.back();
          }
          scales.push_back(1 / std::sqrt(of_sum / size + eps));
        }
        auto normed = [&](int64_t t, int64_t k, double weight) {
          return rounded(sum[static_cast<size_t>(t * length + k)] * scales[static_cast<size_t>(t)] * weight);
        };
        sums.poison(std::byte{0xff});
        seconds.poison(std::byte{0xff});
        check(
            rows, length,
            {{.features = 100, .wide = true}, {9}, {.features = 40, .activation = GroupActivation::kGeluTanhAndMul}},
            group, [&](int64_t t, size_t i, int64_t k) { return normed(t, k, weights[i](k)); }, nullptr, &weights);
        // Norms in float may round to the other side.
        const double step = 2 * dtype_epsilon(dtype_);
        for (GuardedTensor* made : {&sums, &seconds}) {
          made->look();
          EXPECT_EQ(made->fence_damage(), "");
          const std::vector<std::byte> written = made->bytes();
          for (int64_t i = 0; i < rows * length; ++i) {
            const double want =
                made == &sums ? sum[static_cast<size_t>(i)] : normed(i / length, i % length, second(i % length));
            ASSERT_NEAR(load_element(written.data() + static_cast<size_t>(i) * dtype_size(dtype_), dtype_), want,
                        step * (std::abs(want) + 1));
          }
        }
      }
}

TEST_F(StreamGroupTest, HeadsAreDividedByTheirSize) {
  for (int64_t rows : {1, 5})
    for (auto [heads, width, parts] : {std::array<int64_t, 3>{3, 40, 3}, {10, 512, 32}, {1, 264, 17}, {70, 8, 1}}) {
      const int64_t length = heads * width;
      dtype_ = DType::kF32;
      Numbers x = random({rows, length}, 1), squares = random({rows, heads, parts}, 0.2, 5);
      dtype_ = DType::kBF16;
      cuda::StreamGroup group;
      group.prologue = cuda::HeadNormRows{.x = x.there, .squares = squares.there, .eps = 1e-2};
      std::vector<double> made;
      for (int64_t t = 0; t < rows; ++t)
        for (int64_t i = 0; i < length; ++i) {
          double sum = 0;
          for (int64_t p = 0; p < parts; ++p) sum += squares((t * heads + i / width) * parts + p);
          made.push_back(rounded(x(t, i) / std::sqrt(sum / static_cast<double>(width) + 1e-2)));
        }
      check(rows, length, {{90}}, group,
            [&](int64_t t, size_t, int64_t k) { return made[static_cast<size_t>(t * length + k)]; });
    }
}

TEST_F(StreamGroupTest, RefusesWhatItCannotRead) {
  Numbers x = random({9, 64}, 1), weight = random({8, 64}, 1), out = random({9, 8}, 1);
  cuda::StreamGroup group;
  group.products.add({.weight = weight.there, .out = out.there, .x = x.there.view()});
  EXPECT_EQ(cuda::stream_group_refusal(group), "it takes at most 8 rows");
  group.products.at[0].x = x.there.view().narrow(0, 0, 4).narrow(1, 4, 56);
  EXPECT_EQ(cuda::stream_group_refusal(group), "rows must start on 16 bytes");
}

}  // namespace
}  // namespace fk
