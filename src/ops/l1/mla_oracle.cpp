#include "ops/l1/mla_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fk {

Attended attend_with_lse(const std::vector<double>& query, int64_t num_keys, int64_t value_size, double softmax_scale,
                         Rows keys, Rows values) {
  Attended result{std::vector<double>(static_cast<size_t>(value_size)), -std::numeric_limits<double>::infinity()};
  if (num_keys <= 0) return result;
  std::vector<double> scores(static_cast<size_t>(num_keys));
  for (int64_t j = 0; j < num_keys; ++j) {
    const double* key = keys.row(j);
    double dot = 0;
    for (size_t i = 0; i < query.size(); ++i) dot += query[i] * key[i];
    scores[static_cast<size_t>(j)] = dot * softmax_scale;
  }
  double largest = *std::max_element(scores.begin(), scores.end()), sum = 0;
  for (double& s : scores) sum += s = std::exp(s - largest);
  for (int64_t j = 0; j < num_keys; ++j) {
    const double weight = scores[static_cast<size_t>(j)] / sum, *value = values.row(j);
    for (int64_t i = 0; i < value_size; ++i) result.mean[static_cast<size_t>(i)] += weight * value[i];
  }
  result.lse = largest + std::log(sum);
  return result;
}

}  // namespace fk
