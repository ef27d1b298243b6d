#include "ops/algebra/pieces.h"

#include <cmath>
#include <numbers>

#include "ops/l1/fp8_groups.h"

namespace fk::algebra {

Picks pick_largest(const Expr& x, int64_t k, const std::optional<Expr>& allowed) {
  Picks picks;
  const int last = x.rank() - 1;
  Expr place = iota(x.shape(), last);
  std::optional<Expr> free = allowed;
  for (int64_t j = 0; j < k; ++j) {
    Expr best = largest(free ? select(*free, x, -INFINITY) : x, last);
    // No x may equal the best where one is NaN. One that is not less exists always, so that an index is one of x.
    Expr hit = free ? *free & !(x < best) : !(x < best);
    picks.ids.push_back(smallest(select(hit, place, static_cast<double>(x.size(last))), last));
    picks.chosen.push_back(equal(place, picks.ids.back()));
    free = free ? *free & !picks.chosen.back() : !picks.chosen.back();
  }
  return picks;
}

Expr columns(const std::vector<Expr>& parts) {
  Expr place = iota({parts[0].size(0), static_cast<int64_t>(parts.size())}, 1);
  Expr all = parts[0];
  for (size_t j = 1; j < parts.size(); ++j) all = select(equal(place, static_cast<double>(j)), parts[j], all);
  return broadcast(all, place.shape());
}

Expr beside(const Expr& a, const Expr& b, int axis) {
  const int64_t first = a.size(axis), all = first + b.size(axis);
  Expr place = iota({all}, 0);
  Extents along(a.shape().size(), 1);
  along[static_cast<size_t>(axis)] = all;
  return select(reshape(place < static_cast<double>(first), along), gather(a, place, axis),
                gather(b, place - static_cast<double>(first), axis));
}

Expr repeat_heads(const Expr& x, int64_t heads) {
  const int64_t T = x.size(0), n = x.size(1), D = x.size(2);
  return reshape(broadcast(insert_axis(x, 2), {T, n, heads / n, D}), {T, heads, D});
}

Expr segment_of(const Expr& bounds, int64_t count) {
  int64_t n = bounds.size(0) - 1;
  Expr ends = insert_axis(slice(bounds, 0, 1, n), 0);  // [1, n]
  Expr place = iota({count, 1}, 0);
  return drop_axis(sum(select(place < ends, 0, constant(1)), 1), 1);
}

void define_fp8_groups(Definition& d, const Expr& x, int64_t group_size, std::string_view quantised,
                       std::string_view scales) {
  int64_t T = x.size(0), D = x.size(1), groups = fp8_groups(D, group_size);
  Expr grouped = reshape(x, {T, groups, D / groups});
  Expr scale = max(largest(abs(grouped), 2), kLeastGroupSize) / kLargestFp8;
  d.result(quantised, reshape(min(max(grouped / scale, -kLargestFp8), kLargestFp8), {T, D}));
  d.result(scales, reshape(scale, {T, groups}));
}

Expr attend_all(const Attention& rule, const Expr& q, const Expr& k, const Expr& v, const Expr& visible) {
  Expr scores = sum(q * k, 4) * rule.scale;  // [N, K, G, J, 1]
  if (rule.soft_cap > 0) scores = rule.soft_cap * tanh(scores / rule.soft_cap);
  Expr top = largest(select(visible, scores, -INFINITY), 3);
  std::optional<Expr> sink;
  if (rule.sinks) sink = reshape(*rule.sinks, {1, q.size(1), q.size(2), 1, 1});
  if (sink) top = max(top, *sink);
  Expr weights = select(visible, exp(scores - top), 0);
  Expr total = sum(weights, 3);
  if (sink) total = total + exp(*sink - top);
  // Keys that are not seen may be no numbers.
  Expr mixed = sum(select(visible, weights * v, 0), 3);
  Expr out = select(constant(0) < total, mixed / total, 0);
  return reshape(out, {q.size(0), q.size(1) * q.size(2), q.size(4)});
}

Expr in_reach(const Reach& reach, const Expr& query, const Expr& key) {
  auto chunk = static_cast<double>(reach.chunk);
  Expr seen = reach.causal ? !(query < key) : !(key < 0);
  if (reach.window > 0) seen = seen & (query < key + static_cast<double>(reach.window));
  if (reach.chunk > 0) seen = seen & !(key < floor_divide(query, chunk) * chunk);
  return seen;
}

Expr paged_rows(const Expr& cache, const Expr& table) {
  int64_t n = table.size(0), pages = table.size(1), blocks = cache.size(0), page = cache.size(1);
  Extents tokens{n, pages, page};
  Expr slot = insert_axis(table, 2) * static_cast<double>(page) + iota(tokens, 2);
  Extents rows(cache.shape().begin() + 1, cache.shape().end());
  rows[0] = blocks * page;
  return gather(reshape(cache, rows), reshape(slot, {n, pages * page}));
}

Expr store_rows(const Expr& cache, const Expr& slots, const Expr& rows) {
  Extents flat(cache.shape().begin() + 1, cache.shape().end());
  flat[0] = cache.size(0) * cache.size(1);
  return reshape(scatter(reshape(cache, flat), slots, cast(rows, cache.dtype())), cache.shape());
}

PagedQueries paged_queries(const Definition& d, int64_t tokens) {
  Expr token = iota({tokens}, 0), lengths = d.arg("seq_lens");
  if (!d.has("cu_seqlens_q")) return {token, lengths, lengths - 1};
  Expr first = d.arg("cu_seqlens_q"), sequence = segment_of(first, tokens), length = gather(lengths, sequence);
  Expr next = gather(first, sequence + 1);  // the first query of the sequence behind it
  return {sequence, length - next + token + 1, length - next + gather(first, sequence)};
}

Expr latent_scores(const Expr& q_nope, const Expr& q_pe, const Expr& entries) {
  const int64_t latent = q_nope.size(2);
  Expr by_latent = sum(insert_axis(q_nope, 2) * slice(entries, 3, 0, latent), 3);
  return by_latent + sum(insert_axis(q_pe, 2) * slice(entries, 3, latent, q_pe.size(2)), 3);
}

AttendedLatents attend_latents(const Expr& scores, const Expr& values, const Expr& visible) {
  Expr top = largest(select(visible, scores, -INFINITY), 2);  // [T, H, 1, 1]
  Expr weights = select(visible, exp(scores - top), 0), total = sum(weights, 2);
  // Values that are not seen may be no numbers.
  Expr mixed = sum(select(visible, weights * values, 0), 2);  // [T, H, 1, D]
  Expr mean = select(constant(0) < total, mixed / total, 0);
  Expr lse = drop_axis(drop_axis(top + log(total), 3), 2);
  return {drop_axis(mean, 2), transpose(lse, 0, 1)};
}

Expr softplus(const Expr& x) { return max(x, 0) + log(1 + exp(-abs(x))); }

Expr gelu(const Expr& x) { return 0.5 * x * erfc(-x / std::numbers::sqrt2); }

// (1 + tanh(u)) / 2 is the logistic function of 2 u, which does not cancel where tanh is near -1.
Expr gelu_tanh(const Expr& x) { return x * logistic(2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)); }

}  // namespace fk::algebra
