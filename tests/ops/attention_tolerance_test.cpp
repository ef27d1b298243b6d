// The tolerance of attention for large scores: large enough for float sums, and not much larger than needed.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ops/l1/attention_oracle.h"
#include "ops/l1/flash_attn_prefill.h"
#include "ops/materialize.h"

namespace fk {
namespace {

struct Errors {
  double of_usual = 0;    // the largest error relative to the bound that ignores scores
  double of_allowed = 0;  // and relative to the bound that depends on them
};

// Attention in double but for one thing: scores are float, summed one product after the other, the least accurate
// honest method. Inputs are standard normal numbers x factor + shift.
Errors errors_of_float_scores(int64_t head_size, double factor, double shift) {
  constexpr int64_t kQueries = 24, kKeys = 200;
  FlashAttnPrefill::Init init{.num_heads = 1,
                              .num_kv_heads = 1,
                              .head_size = head_size,
                              .softmax_scale = 1 / std::sqrt(static_cast<double>(head_size))};
  Tensor q({kQueries, 1, head_size}, DType::kF32), k({kKeys, 1, head_size}, DType::kF32),
      v({kKeys, 1, head_size}, DType::kF32);
  BatchMetadata batch(Workload::tokens(kQueries), 1);
  for (auto [tensor, name] : {std::pair(&q, "q"), std::pair(&k, "k"), std::pair(&v, "v")}) {
    fill(*tensor, Generator::normal(), 5, name, batch);
    for (int64_t i = 0; i < tensor->view().numel(); ++i)
      tensor->ptr<float>()[i] = static_cast<float>(tensor->ptr<float>()[i] * factor + shift);
  }
  auto rows = [&](const Tensor& t) {
    return rows_of_head(t.view(), t.view().size(0), head_size, [&](int64_t j) {
      const int64_t at[] = {j, 0, 0};
      return t.view().at(at);
    });
  };
  AttentionRule exact{.softmax_scale = init.softmax_scale}, of_scores{};
  std::vector<double> keys = rows(k), values = rows(v), queries = rows(q), truth, rounded;
  for (int64_t t = 0; t < kQueries; ++t) {
    auto first = queries.begin() + t * head_size;
    std::vector<double> wanted = attend(exact, {0, kKeys}, {first, first + head_size}, keys, values);
    truth.insert(truth.end(), wanted.begin(), wanted.end());
    std::vector<double> scores;
    for (int64_t j = 0; j < kKeys; ++j) {
      float sum = 0;
      for (int64_t i = 0; i < head_size; ++i) {
        float product = q.ptr<float>()[t * head_size + i] * k.ptr<float>()[j * head_size + i];
        sum += product;
      }
      scores.push_back(static_cast<float>(sum * static_cast<float>(init.softmax_scale)));
    }
    // One value at a time: a query of one element, 1, whose keys are the scores.
    for (int64_t i = 0; i < head_size; ++i) {
      std::vector<double> column;
      for (int64_t j = 0; j < kKeys; ++j) column.push_back(get(v.view(), j, 0, i));
      rounded.push_back(attend(of_scores, {0, kKeys}, {1}, scores, column)[0]);
    }
  }
  Tolerance usual = FlashAttnPrefill::tolerance(init, DType::kF32);
  Tolerance allowed = tolerance_on_scores(usual, q, k, head_size, init.softmax_scale);
  double scale = 0;
  for (double x : truth) scale = std::max(scale, std::abs(x));
  Errors e;
  for (size_t i = 0; i < truth.size(); ++i) {
    double error = std::abs(rounded[i] - truth[i]), of_value = usual.relative * std::abs(truth[i]);
    e.of_usual = std::max(e.of_usual, error / (of_value + usual.of_scale * scale));
    e.of_allowed = std::max(e.of_allowed, error / (of_value + allowed.of_scale * scale));
  }
  return e;
}

TEST(AttentionTolerance, IsWhatFloatScoresNeed) {
  Errors worst;
  for (int64_t head_size : {16, 64, 128, 256})
    for (auto [factor, shift] :
         {std::pair(1.0, 0.0), std::pair(10.0, 0.0), std::pair(64.0, 0.0), std::pair(1.0, 5.0)}) {
      Errors e = errors_of_float_scores(head_size, factor, shift);
      EXPECT_LT(e.of_allowed, 0.5) << "heads of " << head_size << ", x" << factor << " + " << shift;
      worst = {std::max(worst.of_usual, e.of_usual), std::max(worst.of_allowed, e.of_allowed)};
    }
  EXPECT_GT(worst.of_usual, 1) << "the bound for plain numbers does for all: nothing needs to be added to it";
  EXPECT_GT(worst.of_allowed, 1.0 / 20) << "no honest sum comes near the bound: it is too wide";
}

}  // namespace
}  // namespace fk
