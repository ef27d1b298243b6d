#include "compiler/codegen/attention_pattern.h"

#include <cmath>

namespace fk {
namespace {

using algebra::Expr;
using algebra::Fold;
using algebra::Function;
using algebra::Head;
using algebra::Primitive;

constexpr int kKeyAxis = 3, kElementAxis = 4;
constexpr int kRank = 5;

struct NoMatch {};

void must_hold(bool holds) {
  if (!holds) throw NoMatch();
}

bool same_expr(const Expr& a, const Expr& b) {
  if (a.id() == b.id()) return true;
  if (a.head() != b.head() || a.inputs().size() != b.inputs().size()) return false;
  for (size_t i = 0; i < a.inputs().size(); ++i)
    if (!same_expr(a.inputs()[i], b.inputs()[i])) return false;
  return true;
}

// What a view repeats, if it only repeats.
Expr bare(Expr x) {
  while (x.head().is(Primitive::kView)) {
    const Expr from = x.inputs()[0];
    if (from.rank() > x.rank()) return x;
    const auto rank = static_cast<size_t>(from.rank()), lead = static_cast<size_t>(x.rank()) - rank;
    for (size_t d = 0; d < rank; ++d) {
      if (x.head().map.start[d] != 0) return x;
      for (size_t o = 0; o < static_cast<size_t>(x.rank()); ++o) {
        const int64_t wanted = o == lead + d && from.shape()[d] != 1 ? 1 : 0;
        if (x.head().map.factors[d][o] != wanted) return x;
      }
    }
    x = from;
  }
  return x;
}

std::vector<Expr> arguments(const Expr& x, Function f) {
  must_hold(x.head().is(f));
  return x.inputs();
}
bool is_constant(const Expr& x, double value) {
  const Expr c = bare(x);
  return c.head().is(Primitive::kConstant) && c.head().value == value;
}
bool is_fold(const Expr& x, Fold fold, int axis) {
  return x.head().is(Primitive::kReduce) && x.head().fold == fold && x.head().axis == axis && x.rank() == kRank;
}
Expr fold_input(const Expr& x, Fold fold, int axis) {
  must_hold(is_fold(x, fold, axis));
  return x.inputs()[0];
}

// select(visible, x, otherwise)
Expr where_visible(const Expr& x, const std::optional<Expr>& visible, double otherwise) {
  const std::vector<Expr> parts = arguments(x, Function::kSelect);
  must_hold(is_constant(parts[2], otherwise));
  if (visible) must_hold(same_expr(bare(parts[0]), *visible));
  return parts[1];
}

// The one sum of products that scores are made of. Other inputs of theirs must be numbers.
void find_dot(const Expr& x, std::optional<Expr>& dot) {
  if (is_fold(x, Fold::kSum, kElementAxis)) {
    must_hold(!dot || same_expr(*dot, x));
    dot = x;
    return;
  }
  if (x.head().is(Primitive::kConstant)) return;
  if (x.head().is(Primitive::kView)) {
    must_hold(bare(x).id() != x.id());
    return find_dot(bare(x), dot);
  }
  must_hold(x.head().is(Primitive::kMap));
  for (const Expr& i : x.inputs()) find_dot(i, dot);
}

AttentionPattern matched(Expr result) {
  while (result.head().is(Primitive::kCast) || result.head().is(Primitive::kReshape)) result = result.inputs()[0];
  must_hold(result.rank() == kRank);
  AttentionPattern found;
  // select(0 < total, mixed / total, 0)
  const std::vector<Expr> parts = arguments(result, Function::kSelect);
  const std::vector<Expr> quotient = arguments(parts[1], Function::kDivide);
  const Expr mixed = bare(quotient[0]), total = bare(quotient[1]);
  const Expr positive = bare(parts[0]);
  must_hold(is_constant(arguments(positive, Function::kLess)[0], 0) && same_expr(bare(positive.inputs()[1]), total));
  must_hold(is_constant(parts[2], 0));
  // The visible values, each by its weight.
  const Expr chosen = fold_input(mixed, Fold::kSum, kKeyAxis);
  must_hold(chosen.head().is(Function::kSelect));
  found.visible = bare(chosen.inputs()[0]);
  const std::vector<Expr> weighted = arguments(where_visible(chosen, found.visible, 0), Function::kMultiply);
  const Expr weights = bare(weighted[0]);
  found.v = weighted[1];
  const Expr exponent = arguments(where_visible(weights, found.visible, 0), Function::kExp)[0];
  const std::vector<Expr> difference = arguments(exponent, Function::kSubtract);
  found.scores = bare(difference[0]);
  Expr top = bare(difference[1]);
  Expr sum = total;
  if (total.head().is(Function::kAdd)) {
    sum = bare(total.inputs()[0]);
    const std::vector<Expr> of_sink =
        arguments(arguments(bare(total.inputs()[1]), Function::kExp)[0], Function::kSubtract);
    found.sink = bare(of_sink[0]);
    must_hold(same_expr(bare(of_sink[1]), top));
    const std::vector<Expr> both = arguments(top, Function::kMaximum);
    must_hold(same_expr(bare(both[1]), *found.sink));
    top = bare(both[0]);
  }
  must_hold(same_expr(fold_input(sum, Fold::kSum, kKeyAxis), weights));
  must_hold(
      same_expr(bare(where_visible(fold_input(top, Fold::kMax, kKeyAxis), found.visible, -INFINITY)), found.scores));
  std::optional<Expr> dot;
  find_dot(found.scores, dot);
  must_hold(dot.has_value());
  found.dot = *dot;
  const std::vector<Expr> product = arguments(dot->inputs()[0], Function::kMultiply);
  found.q = product[0];
  found.k = product[1];
  // Of all dimensions: what is repeated along the first ones would be taken for something else.
  must_hold(found.visible.rank() == kRank && (!found.sink || found.sink->rank() == kRank));
  // All of the same queries, heads and keys.
  for (int d = 0; d < kElementAxis; ++d) must_hold(found.dot.size(d) == found.v.size(d));
  return found;
}

}  // namespace

std::optional<AttentionPattern> match_attention(const Expr& result) {
  try {
    return matched(result);
  } catch (const NoMatch&) {
    return {};
  }
}

}  // namespace fk
