// Attention in an expression: which parts of a definition are queries, keys, values, scores, mask and sinks.
#pragma once

#include <cstdint>
#include <optional>

#include "ops/algebra/expr.h"

namespace fk {

// The parts of attend_all() (ops/algebra/pieces.h), found by the shape of the expression and not by an operator's name.
// N queries rows, K key heads, G query heads that share one, J keys.
struct AttentionPattern {
  algebra::Expr q;                    // [N, K, G, J, Dq], repeated along J
  algebra::Expr k;                    // [N, K, G, J, Dq], repeated along G
  algebra::Expr v;                    // [N, K, G, J, Dv], likewise
  algebra::Expr dot;                  // the sum over q * k, [N, K, G, J, 1]
  algebra::Expr scores;               // a function of `dot` alone
  algebra::Expr visible;              // [N, K, G, J, 1]: whether a key takes part
  std::optional<algebra::Expr> sink;  // [N, K, G, 1, 1]: one more score, without a value

  int64_t kv_heads() const { return dot.size(1); }
  int64_t group() const { return dot.size(2); }
  int64_t query_size() const { return q.size(4); }
  int64_t value_size() const { return v.size(4); }
};

// Nothing where a result is something else.
std::optional<AttentionPattern> match_attention(const algebra::Expr& result);

}  // namespace fk
