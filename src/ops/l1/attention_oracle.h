// Attention of one query over its keys, in double: the reference of both attention operators.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/element_rows.h"
#include "core/tensor.h"
#include "ops/param.h"
#include "ops/workload.h"

namespace fk {

struct AttentionRule {
  double softmax_scale = 1;
  double logits_soft_cap = 0;
  int64_t sliding_window = 0;
  bool causal = true;
  int64_t chunk_size = 0;
};

// Keys a query at `position` sees: [first, last).
struct KeyRange {
  int64_t first;
  int64_t last;
};
inline KeyRange visible_keys(const AttentionRule& rule, int64_t position, int64_t num_keys) {
  int64_t first = rule.sliding_window > 0 ? std::max<int64_t>(0, position - rule.sliding_window + 1) : 0;
  if (rule.chunk_size > 0) first = std::max(first, position / rule.chunk_size * rule.chunk_size);
  return {first, rule.causal ? position + 1 : num_keys};
}

// The keys or the values of one head: dense rows of head_size. first(j) is the address in `of` of the first element of
// key j; the elements of a key are one stride of the last dimension apart.
template <class First>
std::vector<double> rows_of_head(const View& of, int64_t num_keys, int64_t head_size, First&& first) {
  std::vector<double> rows(static_cast<size_t>(num_keys * head_size));
  for (int64_t j = 0; j < num_keys; ++j)
    load_elements(first(j), of.dtype(), of.stride(of.rank() - 1), head_size, rows.data() + j * head_size);
  return rows;
}

// One query over the keys it sees, of rows as above; gives head_size results. A sink is one more score, whose value is
// zero.
std::vector<double> attend(const AttentionRule& rule, KeyRange seen, const std::vector<double>& query,
                           const std::vector<double>& keys, const std::vector<double>& values,
                           std::optional<double> sink = {});

// The parameter of operators with attention sinks.
std::vector<ParamSpec> sink_params(bool has_sinks, int64_t num_heads);

// The tolerance `usual` on these queries and keys (dense, of heads of this size). A score is a float sum, so its error
// grows with its size and an exponential makes a relative error of it: where scores can be larger than those of
// standard normal inputs, four roundings of the largest possible score of these vectors are added. The outputs alone do
// not show how large the scores were.
Tolerance tolerance_on_scores(Tolerance usual, const View& queries, const View& keys, int64_t head_size,
                              double softmax_scale);
// The same where the largest possible score is known.
Tolerance tolerance_on_scores(Tolerance usual, double largest_score, int64_t head_size);
// Of dense vectors of this size.
double largest_norm(const View& vectors, int64_t head_size);

// Query-key pairs a batch of causal sequences has, for counting operations.
double attended_pairs(int64_t query_len, int64_t context_len, const AttentionRule& rule);

}  // namespace fk
