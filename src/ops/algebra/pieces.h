// Pieces that the definitions of several operators share.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ops/algebra/definition.h"

namespace fk::algebra {

// The k largest along the last dimension of x [..., N], the largest first; of equal ones that with the lower index.
// `allowed` [..., N]: only of these.
struct Picks {
  std::vector<Expr> ids;     // k times [..., 1]
  std::vector<Expr> chosen;  // k times [..., N]: true at that place
};
Picks pick_largest(const Expr& x, int64_t k, const std::optional<Expr>& allowed = {});
// Columns [T, 1] side by side.
Expr columns(const std::vector<Expr>& parts);
// b behind a along an axis.
Expr beside(const Expr& a, const Expr& b, int axis);
// x [T, n, D] with heads heads, a multiple of n: each of x is shared by neighbouring ones.
Expr repeat_heads(const Expr& x, int64_t heads);

// The number of the segment that each of `count` places is in, [count]; `bounds` [n + 1] rises. Places behind the last
// bound are in segment n.
Expr segment_of(const Expr& bounds, int64_t count);

// What a group of an FP8 tensor stores: x [T, D] in groups of this many elements, 0: whole rows.
void define_fp8_groups(Definition& d, const Expr& x, int64_t group_size, std::string_view quantised,
                       std::string_view scales);

// Attention over keys that `visible` [N, 1, 1, J, 1] admits. q [N, K, G, 1, D]; k, v [N or 1, K, 1, J, D] -> [N, K * G,
// D]. A query that sees nothing gives zeros.
struct Attention {
  double scale = 1;
  double soft_cap = 0;
  std::optional<Expr> sinks = {};  // [K * G]
};
Expr attend_all(const Attention& rule, const Expr& q, const Expr& k, const Expr& v, const Expr& visible);
// Whether a query at a position sees a key at another, by window and chunk; both broadcast.
struct Reach {
  bool causal = true;
  int64_t window = 0;  // keys a query sees, itself included; 0: all
  int64_t chunk = 0;   // it sees only keys of its own chunk of positions; 0: no chunks
};
Expr in_reach(const Reach& reach, const Expr& query, const Expr& key);
// Pages of a cache [blocks, page, K, D] as rows: of each table row, [n, J, K, D] with J = pages * page.
Expr paged_rows(const Expr& cache, const Expr& table);

// The cache [blocks, page, ...] with rows [T, ...] in their slots [T]; those with a negative slot are not stored.
Expr store_rows(const Expr& cache, const Expr& slots, const Expr& rows);

// Of the queries of a call with seq_lens [S], which counts new tokens too, and cu_seqlens_q [S + 1], or without it one
// query in every sequence: all [T].
struct PagedQueries {
  Expr sequence;  // that it belongs to
  Expr seen;      // keys up to its own
  Expr context;   // keys before the new tokens
};
PagedQueries paged_queries(const Definition& d, int64_t tokens);

// Scores [T, H, J, 1] of queries in two parts [T, H, L] and [T, H, R] with entries [T, 1, J, L + R].
Expr latent_scores(const Expr& q_nope, const Expr& q_pe, const Expr& entries);
// Attention by scores [T, H, J, 1] with values [T or 1, H or 1, J, D] where `visible`, which broadcasts.
struct AttendedLatents {
  Expr mean;  // [T, H, D]; zeros for a query that sees nothing
  Expr lse;   // [H, T]: the logarithm of the sum of exponentials
};
AttendedLatents attend_latents(const Expr& scores, const Expr& values, const Expr& visible);

Expr softplus(const Expr& x);
// gelu, silu, ... of activation and of the gated activations.
Expr gelu(const Expr& x);
Expr gelu_tanh(const Expr& x);
// x [T, 2 F]: its halves.
inline Expr gate_of(const Expr& x) { return slice(x, 1, 0, x.size(1) / 2); }
inline Expr up_of(const Expr& x) { return slice(x, 1, x.size(1) / 2, x.size(1) / 2); }

}  // namespace fk::algebra
