#include "ops/l1/attention_oracle.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace fk {
namespace {

// In four sums, which the compiler vectorises: an oracle may add in any order, and this loop takes most of its time.
double dot(const double* a, const double* b, size_t n) {
  double sums[4] = {};
  size_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (size_t k = 0; k < 4; ++k) sums[k] += a[i + k] * b[i + k];
  double rest = 0;
  for (; i < n; ++i) rest += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest;
}

}  // namespace

std::vector<double> attend(const AttentionRule& rule, KeyRange seen, const std::vector<double>& query,
                           const std::vector<double>& keys, const std::vector<double>& values,
                           std::optional<double> sink) {
  size_t size = query.size();
  auto row = [&](const std::vector<double>& rows, int64_t j) { return rows.data() + static_cast<size_t>(j) * size; };
  std::vector<double> weights;
  for (int64_t j = seen.first; j < seen.last; ++j) {
    double score = dot(query.data(), row(keys, j), size) * rule.softmax_scale;
    if (rule.logits_soft_cap > 0) score = rule.logits_soft_cap * std::tanh(score / rule.logits_soft_cap);
    weights.push_back(score);
  }
  std::vector<double> mean(size);
  if (weights.empty()) return mean;
  double largest = *std::max_element(weights.begin(), weights.end()), sum = 0;
  if (sink) {
    largest = std::max(largest, *sink);
    sum = std::exp(*sink - largest);
  }
  for (double& w : weights) sum += w = std::exp(w - largest);
  for (int64_t j = seen.first; j < seen.last; ++j) {
    const double *value = row(values, j), weight = weights[static_cast<size_t>(j - seen.first)] / sum;
    for (size_t i = 0; i < size; ++i) mean[i] += weight * value[i];
  }
  return mean;
}

double largest_norm(const View& vectors, int64_t head_size) {
  FK_CHECK(vectors.contiguous());
  const auto* at = static_cast<const std::byte*>(vectors.data());
  double largest = 0;
  for (int64_t n = vectors.numel() / head_size; n > 0; --n) {
    double squares = 0;
    for (int64_t i = 0; i < head_size; ++i, at += dtype_size(vectors.dtype())) {
      double x = load_element(at, vectors.dtype());
      squares += x * x;
    }
    largest = std::max(largest, squares);
  }
  return std::sqrt(largest);
}

Tolerance tolerance_on_scores(Tolerance usual, const View& queries, const View& keys, int64_t head_size,
                              double softmax_scale) {
  double largest = std::abs(softmax_scale) * largest_norm(queries, head_size) * largest_norm(keys, head_size);
  return tolerance_on_scores(usual, largest, head_size);
}

Tolerance tolerance_on_scores(Tolerance usual, double largest, int64_t head_size) {
  // Errors of at most d in the scores change an output by at most d times the largest value. With u = 2^-24, d is n u
  // times the largest score in the worst case. With sequential summation we observed 2 u for terms of either sign, and
  // 20 u for 512 terms of one sign, which change all scores alike. Hence 8 u. For standard normal inputs this gives 16
  // u sqrt(n), the usual tolerance.
  // Vectors of n standard normal numbers have norms around sqrt(n), and the scale 1 / sqrt(n) is made for scores around
  // n / sqrt(n).
  double plain = 2 * std::sqrt(static_cast<double>(head_size));
  if (largest > plain) usual.of_scale += 4 * 0x1p-23 * (largest - plain);
  return usual;
}

std::vector<ParamSpec> sink_params(bool has_sinks, int64_t num_heads) {
  if (!has_sinks) return {};
  return {{"sinks", {{num_heads}, DType::kF32}}};
}

double attended_pairs(int64_t query_len, int64_t context_len, const AttentionRule& rule) {
  double pairs = 0;
  for (int64_t q = 0; q < query_len; ++q) {
    KeyRange keys = visible_keys(rule, context_len + q, context_len + query_len);
    pairs += static_cast<double>(keys.last - keys.first);
  }
  return pairs;
}

}  // namespace fk
