// The largest keys of rows by each kernel, where counting by digits could go wrong: equal keys at the border, one value
// only, infinities, numbers that differ in their last bits alone, rows whose ends fall anywhere.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/rng.h"
#include "ops/l1/top_k_per_row.h"
#include "ops/registry.h"
#include "tests/backend/cuda/on_device.h"

namespace fk {
namespace {

enum class Values { kNormal, kFew, kEqual, kNeighbours, kExtremes, kAscending, kDescending };

float value(Values values, int64_t i, const Stream& stream) {
  const double normal = stream.normal(static_cast<uint64_t>(i));
  constexpr float kMost = std::numeric_limits<float>::max(), kInfinite = std::numeric_limits<float>::infinity();
  switch (values) {
    case Values::kFew:
      return std::floor(static_cast<float>(normal));  // also zeros of both signs
    case Values::kEqual:
      return -3;
    case Values::kNeighbours: {
      float x = 1.5F;
      for (int64_t step = i * 7919 % 13; step > 0; --step) x = std::nextafter(x, 2.0F);
      return x;
    }
    case Values::kExtremes: {
      constexpr float kAll[] = {kMost, -kMost, kInfinite, -kInfinite, 0.0F, -0.0F, 1e-45F, -1e-45F};
      return kAll[static_cast<uint64_t>(i) * 2654435761U / 64 % 8];
    }
    case Values::kAscending:
      return static_cast<float>(i);
    case Values::kDescending:
      return -static_cast<float>(i);
    default:
      return static_cast<float>(normal);
  }
}

class TopK : public OnDevice, public testing::WithParamInterface<const char*> {
 protected:
  // Rows of `row` keys, of which each sees another number.
  void check(Values values, int64_t row, int64_t k, const std::vector<int64_t>& seen, int64_t offset = 0) {
    SCOPED_TRACE(testing::Message() << "values " << static_cast<int>(values) << ", rows of " << row << ", " << k
                                    << " wanted, offset " << offset);
    const auto rows = static_cast<int64_t>(seen.size());
    Tensor logits({rows, 1, row + offset}, DType::kF32), positions({rows}, DType::kI64);
    for (int64_t t = 0; t < rows; ++t) {
      const Stream stream(11, std::to_string(t));
      positions.ptr<int64_t>()[t] = seen[static_cast<size_t>(t)] - 1;
      for (int64_t i = 0; i < row + offset; ++i) logits.ptr<float>()[t * (row + offset) + i] = value(values, i, stream);
    }
    Tensor logits_there = uploaded(logits), positions_there = uploaded(positions),
           indices_there({rows, k}, DType::kI32, kCuda);
    std::unique_ptr<Node> node =
        Registry::instance()
            .at(TopKPerRow::kName)
            .build(
                to_fields(TopKPerRow::Init{.top_k = k}),
                {.device = kCuda, .only_operator = std::string(TopKPerRow::kName), .only_implementation = GetParam()});
    Context ctx{.pool = pool_, .arena = arena_};
    ctx.stream = runtime().stream();
    const View part = logits_there.view().narrow(2, offset, row);
    node->call(ctx, std::vector<OptView>{part, positions_there.view(), indices_there.view()});
    runtime().synchronize();

    const Tensor indices = downloaded(indices_there);
    for (int64_t t = 0; t < rows; ++t) {
      const float* x = logits.ptr<float>() + t * (row + offset) + offset;
      std::vector<int32_t> want(static_cast<size_t>(seen[static_cast<size_t>(t)]));
      std::iota(want.begin(), want.end(), 0);
      std::stable_sort(want.begin(), want.end(), [&](int32_t a, int32_t b) { return x[a] > x[b]; });
      want.resize(std::min(want.size(), static_cast<size_t>(k)));
      std::sort(want.begin(), want.end());
      want.resize(static_cast<size_t>(k), -1);
      const int32_t* got = indices.ptr<int32_t>() + t * k;
      EXPECT_TRUE(std::equal(want.begin(), want.end(), got)) << "row " << t << " of " << seen[static_cast<size_t>(t)];
    }
  }

  static constexpr Values kAll[] = {Values::kNormal,   Values::kFew,       Values::kEqual,     Values::kNeighbours,
                                    Values::kExtremes, Values::kAscending, Values::kDescending};
  ThreadPool pool_{1};
  Arena arena_;
};

TEST_P(TopK, AreTheFirstOfTheLargest) {
  for (Values values : kAll) {
    check(values, 32768, 2048, {32768, 32767, 32001, 20000, 2049, 2048, 2047, 1, 0});
    check(values, 8192, 2048, {8192, 8191, 4097, 4096, 4095, 2049});
    check(values, 1008, 7, {1008, 1007, 33, 8, 7, 6});
    check(values, 16, 1, {16, 1, 2});
  }
}

TEST_P(TopK, OfRowsThatAreLongOrBeginAnywhere) {
  for (Values values : kAll) {
    for (int64_t row : {33000, 70000, 140000}) check(values, row, 2048, {row, row - 1, row / 2 + 1});
    check(values, 9999, 300, {9999, 5001}, 1);
    check(values, 40001, 1999, {40001, 39997}, 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, TopK, testing::Values("cuda.cluster_per_row", "cuda.radix_select"),
                         [](const auto& p) { return p.index == 0 ? "clusters" : "blocks"; });

}  // namespace
}  // namespace fk
