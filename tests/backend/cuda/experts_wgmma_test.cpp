// Products of many rows with the matrices of their experts on wgmma against those of the streaming kernel: many tiles a
// block, clusters, experts without rows and with most of them, rows in the order of their experts.
#include <cmath>

#include "backend/cuda/experts/stream.h"
#include "backend/cuda/experts/wgmma.h"
#include "backend/cuda/experts/wgmma_in_order.h"
#include "core/rng.h"
#include "tests/backend/cuda/on_device.h"

namespace fk {
namespace {

using cuda::ExpertsCall;
using cuda::ExpertsEpilogue;

class Experts : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (IsSkipped()) return;
    if (std::string_view why = cuda::experts_wgmma_refusal(
            {.x_stride = 8, .out_stride = 8, .experts = 1, .pairs = 512, .features = 8, .length = 8});
        !why.empty())
      GTEST_SKIP() << why;
  }

  static Tensor dummy(Shape shape, uint64_t key, float scale) {
    Tensor there(shape, DType::kBF16, kCuda);
    runtime().fill_dummy(there, key, 0, scale, 0);
    return there;
  }

  // Pairs of `tokens` with `top_k` different experts each, expert 0 twice as often as others, and the last never.
  struct Routed {
    Routed(int64_t tokens, int experts, int top_k)
        : sorted(Shape{tokens * top_k}, DType::kI32), offsets(Shape{experts + 1}, DType::kI32) {
      std::vector<std::vector<int32_t>> of(static_cast<size_t>(experts));
      Stream stream(7, "routing");
      for (int64_t t = 0; t < tokens; ++t) {
        const auto first = static_cast<int>(stream.uniform(static_cast<uint64_t>(t)) * experts);
        for (int k = 0; k < top_k; ++k) {
          const int expert = (first + k) % experts;
          of[static_cast<size_t>(expert == experts - 1 ? 0 : expert)].push_back(static_cast<int32_t>(t * top_k + k));
        }
      }
      int32_t at = 0;
      for (size_t e = 0; e < of.size(); ++e) {
        offsets.ptr<int32_t>()[e] = at;
        for (int32_t pair : of[e]) sorted.ptr<int32_t>()[at++] = pair;
      }
      offsets.ptr<int32_t>()[experts] = at;
    }
    Tensor sorted, offsets;
  };

  static std::vector<double> numbers(const View& there) {
    Tensor host = downloaded(there);
    std::vector<double> list(static_cast<size_t>(host.view().numel()));
    const auto* at = static_cast<const std::byte*>(host.view().data());
    for (size_t i = 0; i < list.size(); ++i) list[i] = load_element(at + 2 * i, DType::kBF16);
    return list;
  }

  void check(int64_t tokens, int experts, int top_k, int length, int features, ExpertsEpilogue epilogue) {
    SCOPED_TRACE(testing::Message() << tokens << " tokens, " << experts << " experts, " << features << " x " << length);
    Routed routed(tokens, experts, top_k);
    Tensor sorted = uploaded(routed.sorted), offsets = uploaded(routed.offsets);
    const int64_t pairs = tokens * top_k, rows = cuda::is_gated(epilogue) ? 2 * features : features;
    Tensor x = dummy({tokens, length}, 1, 1),
           w = dummy({experts * rows, length}, 2, 2 / std::sqrt(static_cast<float>(length)));
    Tensor bias = dummy({experts * rows}, 3, 1);
    Tensor got({pairs, features}, DType::kBF16, kCuda), want({pairs, features}, DType::kBF16, kCuda);
    runtime().fill(got.view().data(), std::byte{0xff}, got.view().size_bytes());  // what is not written is no number
    ExpertsCall call{.x = x.view().data(),
                     .weight = w.view().data(),
                     .bias = bias.view().data(),
                     .out = got.view().data(),
                     .sorted = sorted.ptr<int32_t>(),
                     .offsets = offsets.ptr<int32_t>(),
                     .x_stride = length,
                     .out_stride = features,
                     .experts = experts,
                     .pairs = static_cast<int>(pairs),
                     .pairs_per_row = top_k,
                     .top_k = top_k,
                     .features = features,
                     .length = length,
                     .epilogue = epilogue,
                     .alpha = 1.702f,
                     .limit = 7};
    ASSERT_EQ(cuda::experts_wgmma_refusal(call), "");
    cuda::experts_wgmma(call, runtime().stream());
    call.out = want.view().data();
    cuda::stream_experts(call, runtime().stream());
    runtime().synchronize();
    const std::vector<double> wants = numbers(want);
    EXPECT_EQ(wrong_rows(numbers(got), wants, features, nullptr), 0);

    Tensor ordered({pairs, length}, DType::kBF16, kCuda);
    cuda::gather_sorted_rows(call, ordered.view().data(), runtime().stream());
    call.x = ordered.view().data();
    call.out = got.view().data();
    for (bool out_in_order : {false, true}) {
      SCOPED_TRACE(out_in_order ? "rows of x and out in order" : "rows of x in order");
      runtime().fill(got.view().data(), std::byte{0xff}, got.view().size_bytes());
      call.sorted = out_in_order ? nullptr : sorted.ptr<int32_t>();
      cuda::experts_wgmma_in_order(call, runtime().stream());
      runtime().synchronize();
      EXPECT_EQ(wrong_rows(numbers(got), wants, features, out_in_order ? routed.sorted.ptr<int32_t>() : nullptr), 0);
    }
  }

  // Row i of `got` must be row pairs[i] of `want`, or row i: sums in another order, then rounded.
  static int64_t wrong_rows(const std::vector<double>& got, const std::vector<double>& want, int features,
                            const int32_t* pairs) {
    const auto width = static_cast<size_t>(features);
    int64_t wrong = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const double expected = want[pairs == nullptr ? i : static_cast<size_t>(pairs[i / width]) * width + i % width];
      wrong += std::abs(got[i] - expected) <= 0x1p-6 * std::abs(expected) + 0.01 ? 0 : 1;
    }
    return wrong;
  }
};

TEST_F(Experts, ManyTilesABlock) {
  check(2100, 2, 2, 512, 4096, ExpertsEpilogue::kPlain);       // clusters
  check(2100, 2, 2, 320, 3000, ExpertsEpilogue::kSiluAndMul);  // clusters
  check(1200, 8, 2, 512, 4096, ExpertsEpilogue::kPlain);
  check(1200, 8, 2, 328, 2056, ExpertsEpilogue::kSwigluOAI);
  check(700, 64, 4, 264, 1032, ExpertsEpilogue::kPlain);
  check(40, 32, 4, 1096, 1024, ExpertsEpilogue::kSiluAndMul);
}

}  // namespace
}  // namespace fk
