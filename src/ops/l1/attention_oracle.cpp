#include "ops/l1/attention_oracle.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace fk {

void attend(const AttentionRule& rule, KeyRange keys, int64_t head_size, const std::function<double(int64_t)>& query,
            const std::function<double(int64_t, int64_t)>& key, const std::function<double(int64_t, int64_t)>& value,
            const std::function<void(int64_t, double)>& store) {
  std::vector<double> weights;
  for (int64_t j = keys.first; j < keys.last; ++j) {
    double score = 0;
    for (int64_t i = 0; i < head_size; ++i) score += query(i) * key(j, i);
    score *= rule.softmax_scale;
    if (rule.logits_soft_cap > 0) score = rule.logits_soft_cap * std::tanh(score / rule.logits_soft_cap);
    weights.push_back(score);
  }
  double largest = weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& w : weights) sum += w = std::exp(w - largest);
  for (int64_t i = 0; i < head_size; ++i) {
    double mean = 0;
    for (int64_t j = keys.first; j < keys.last; ++j) mean += weights[static_cast<size_t>(j - keys.first)] * value(j, i);
    store(i, weights.empty() ? 0 : mean / sum);
  }
}

double attended_pairs(int64_t query_len, int64_t context_len, int64_t sliding_window, bool causal) {
  double pairs = 0;
  AttentionRule rule{.sliding_window = sliding_window, .causal = causal};
  for (int64_t q = 0; q < query_len; ++q) {
    KeyRange keys = visible_keys(rule, context_len + q, context_len + query_len);
    pairs += static_cast<double>(keys.last - keys.first);
  }
  return pairs;
}

}  // namespace fk
