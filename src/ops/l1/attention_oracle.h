// Attention of one query over its keys, in double: what both attention operators are held to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "core/tensor.h"

namespace fk {

struct AttentionRule {
  double softmax_scale = 1;
  double logits_soft_cap = 0;
  int64_t sliding_window = 0;
  bool causal = true;
};

// Keys a query at `position` sees: [first, last).
struct KeyRange {
  int64_t first;
  int64_t last;
};
inline KeyRange visible_keys(const AttentionRule& rule, int64_t position, int64_t num_keys) {
  int64_t first = rule.sliding_window > 0 ? std::max<int64_t>(0, position - rule.sliding_window + 1) : 0;
  return {first, rule.causal ? position + 1 : num_keys};
}

// query(i) and the elements key(j, i), value(j, i) of key j; writes head_size results through store(i, x).
void attend(const AttentionRule& rule, KeyRange keys, int64_t head_size, const std::function<double(int64_t)>& query,
            const std::function<double(int64_t, int64_t)>& key, const std::function<double(int64_t, int64_t)>& value,
            const std::function<void(int64_t, double)>& store);

// Query-key pairs a batch of causal sequences has, for counting operations.
double attended_pairs(int64_t query_len, int64_t context_len, int64_t sliding_window, bool causal);

}  // namespace fk
