#include "ops/l1/mla_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/l1/oracle_rows.h"

namespace fk {

Attended attend_with_lse(const std::vector<double>& query, int64_t num_keys, int64_t value_size, double softmax_scale,
                         Rows keys, Rows values) {
  Attended result{std::vector<double>(static_cast<size_t>(value_size)), -std::numeric_limits<double>::infinity()};
  if (num_keys <= 0) return result;
  std::vector<double> scores(static_cast<size_t>(num_keys));
  for (int64_t j = 0; j < num_keys; ++j) {
    scores[static_cast<size_t>(j)] =
        softmax_scale * dot_of_rows(query.data(), keys.row(j), static_cast<int64_t>(query.size()));
  }
  double largest = *std::max_element(scores.begin(), scores.end()), sum = 0;
  for (double& s : scores) sum += s = std::exp(s - largest);
  for (int64_t j = 0; j < num_keys; ++j) {
    const double weight = scores[static_cast<size_t>(j)] / sum, *value = values.row(j);
    double* mean = result.mean.data();
#pragma omp simd
    for (int64_t i = 0; i < value_size; ++i) mean[i] += weight * value[i];
  }
  result.lse = largest + std::log(sum);
  return result;
}

}  // namespace fk
