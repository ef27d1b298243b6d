// The rules of the algebra. Each is one function: its premises first, then what it found.
#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/egraph/rewrite.h"

namespace fk {
namespace {

using algebra::Extents;
using algebra::Fold;
using algebra::Function;
using algebra::Head;
using algebra::IndexMap;
using algebra::Primitive;
using Found = std::function<void(Term)>;

Head map_head(Function f) { return {.primitive = Primitive::kMap, .function = f}; }

Term view_term(Term x, const Extents& from, IndexMap map, const Extents& to) {
  if (algebra::is_identity(map, from, to)) return x;
  Head head{.primitive = Primitive::kView, .map = algebra::normalised(std::move(map), to), .shape = to};
  return {std::move(head), {std::move(x)}};
}

Term reshape_term(Term x, const Extents& from, const Extents& to) {
  if (from == to) return x;
  return {Head{.primitive = Primitive::kReshape, .shape = to}, {std::move(x)}};
}

// One number in every place of an array of this shape.
Term number_term(double value, DType dtype, const Extents& shape) {
  Term number(Head{.value = value, .dtype = dtype}, {});
  return view_term(std::move(number), {}, {}, shape);
}

bool is_one_number(const Facts& f) { return f.low == f.high && std::isfinite(f.low); }

// A function of elements in the same place: a map, or a cast.
bool is_elementwise(const Head& head) { return head.is(Primitive::kMap) || head.is(Primitive::kCast); }

void view_of_view(const EGraph& g, NodeId n, const Found& found) {
  const Head& outer = g.head(n);
  for (NodeId inner : g.nodes_in(g.node(n).inputs[0], Primitive::kView)) {
    ClassId x = g.node(inner).inputs[0];
    found(view_term(x, g.facts(x).shape, algebra::compose(g.head(inner).map, outer.map), outer.shape));
  }
}

void view_of_map(const EGraph& g, NodeId n, const Found& found) {
  const Head& view = g.head(n);
  for (NodeId inner : g.nodes(g.node(n).inputs[0])) {
    if (!is_elementwise(g.head(inner))) continue;
    std::vector<Term> inputs;
    for (ClassId x : g.node(inner).inputs) inputs.push_back(view_term(x, g.facts(x).shape, view.map, view.shape));
    found({g.head(inner), std::move(inputs)});
  }
}

// What each input of an element-wise node is a view of, by this map and from this shape; every combination.
void each_choice_of_sources(const EGraph& g, const EGraph::Node& node, const IndexMap& map, const Extents& source,
                            std::vector<Term>& chosen, const std::function<void()>& found) {
  if (chosen.size() == node.inputs.size()) return found();
  ClassId x = node.inputs[chosen.size()];
  auto choose = [&](Term term) {
    chosen.push_back(std::move(term));
    each_choice_of_sources(g, node, map, source, chosen, found);
    chosen.pop_back();
  };
  if (is_one_number(g.facts(x))) return choose(number_term(g.facts(x).low, g.facts(x).dtype, source));
  for (NodeId v : g.nodes_in(x, Primitive::kView))
    if (g.head(v).map == map && g.facts(g.node(v).inputs[0]).shape == source) choose(g.node(v).inputs[0]);
}

// Only where there is less to compute before the view than behind it.
void map_of_views(const EGraph& g, NodeId n, const Found& found) {
  const EGraph::Node& node = g.node(n);
  const Extents& shape = g.facts(g.class_of(n)).shape;
  auto leader =
      std::find_if_not(node.inputs.begin(), node.inputs.end(), [&](ClassId c) { return is_one_number(g.facts(c)); });
  if (leader == node.inputs.end()) return;
  std::set<std::pair<IndexMap, Extents>> tried;
  for (NodeId v : g.nodes_in(*leader, Primitive::kView)) {
    const IndexMap& map = g.head(v).map;
    const Extents& source = g.facts(g.node(v).inputs[0]).shape;
    bool smaller = algebra::count_elements(source) < algebra::count_elements(shape);
    if (!smaller || !tried.emplace(map, source).second) continue;
    std::vector<Term> inputs;
    each_choice_of_sources(g, node, map, source, inputs, [&] {
      found(view_term({g.head(n), inputs}, source, map, shape));
    });
  }
}

void commute(const EGraph& g, NodeId n, const Found& found) {
  switch (g.head(n).function) {
    case Function::kAdd:
    case Function::kMultiply:
    case Function::kMaximum:
    case Function::kMinimum:
    case Function::kEqual:
    case Function::kAnd:
    case Function::kOr:
      found({g.head(n), {g.node(n).inputs[1], g.node(n).inputs[0]}});
      break;
    default:
      break;
  }
}

// A factor that is the same along the axis. Of no elements the sum is 0 whatever the factor, infinite ones included.
void factor_out_of_sum(const EGraph& g, NodeId n, const Found& found) {
  const Head& sum = g.head(n);
  ClassId of = g.node(n).inputs[0];
  auto axis = static_cast<size_t>(sum.axis);
  if (sum.fold != Fold::kSum || g.facts(of).shape[axis] == 0) return;
  for (NodeId k : g.nodes_in(of, Primitive::kMap)) {
    const Head& head = g.head(k);
    if (!head.is(Function::kMultiply) && !head.is(Function::kDivide)) continue;
    for (size_t side = head.is(Function::kDivide) ? 1 : 0; side < 2; ++side) {
      ClassId factor = g.node(k).inputs[side], rest = g.node(k).inputs[1 - side];
      for (NodeId v : g.nodes_in(factor, Primitive::kView)) {
        const IndexMap& map = g.head(v).map;
        bool same = true;
        for (const std::vector<int64_t>& factors : map.factors) same = same && factors[axis] == 0;
        if (!same) continue;
        ClassId source = g.node(v).inputs[0];
        Extents shape = g.facts(factor).shape;
        shape[axis] = 1;
        Term once = view_term(source, g.facts(source).shape, map, shape);
        Head of_rest{.primitive = Primitive::kReduce, .fold = Fold::kSum, .axis = sum.axis};
        Term total(of_rest, {rest});
        found({head, side == 0 ? std::vector<Term>{once, total} : std::vector<Term>{total, once}});
      }
    }
  }
}

// The inner cast must lose nothing: its input is stored in a type whose numbers it all has.
void cast_of_cast(const EGraph& g, NodeId n, const Found& found) {
  const Head& outer = g.head(n);
  for (NodeId inner : g.nodes_in(g.node(n).inputs[0], Primitive::kCast)) {
    ClassId x = g.node(inner).inputs[0];
    const Facts& facts = g.facts(x);
    if (!facts.stored || !holds_all_of(g.head(inner).dtype, facts.dtype)) continue;
    if (facts.dtype == outer.dtype)
      found(x);
    else
      found({Head{.primitive = Primitive::kCast, .dtype = outer.dtype}, {x}});
  }
}

void reshape_of_reshape(const EGraph& g, NodeId n, const Found& found) {
  for (NodeId inner : g.nodes_in(g.node(n).inputs[0], Primitive::kReshape)) {
    ClassId x = g.node(inner).inputs[0];
    found(reshape_term(x, g.facts(x).shape, g.head(n).shape));
  }
}

void reshape_of_map(const EGraph& g, NodeId n, const Found& found) {
  const Extents& shape = g.head(n).shape;
  for (NodeId inner : g.nodes(g.node(n).inputs[0])) {
    if (!is_elementwise(g.head(inner))) continue;
    std::vector<Term> inputs;
    for (ClassId x : g.node(inner).inputs) inputs.push_back(reshape_term(x, g.facts(x).shape, shape));
    found({g.head(inner), std::move(inputs)});
  }
}

// The same extents but for those of 1: an affine map of the index.
void reshape_is_view(const EGraph& g, NodeId n, const Found& found) {
  ClassId x = g.node(n).inputs[0];
  const Extents &from = g.facts(x).shape, &to = g.head(n).shape;
  IndexMap map{std::vector<int64_t>(from.size(), 0),
               std::vector<std::vector<int64_t>>(from.size(), std::vector<int64_t>(to.size(), 0))};
  size_t j = 0;
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] == 1) continue;
    while (j < to.size() && to[j] == 1) ++j;
    if (j == to.size() || to[j] != from[d]) return;
    map.factors[d][j++] = 1;
  }
  for (; j < to.size(); ++j)
    if (to[j] != 1) return;
  found(view_term(x, from, map, to));
}

// The reciprocal of a power of two is exact, of other numbers it is not.
void divide_by_power_of_two(const EGraph& g, NodeId n, const Found& found) {
  if (!g.head(n).is(Function::kDivide)) return;
  const Facts& by = g.facts(g.node(n).inputs[1]);
  int exponent = 0;
  if (!is_one_number(by) || std::abs(std::frexp(by.low, &exponent)) != 0.5 || std::abs(exponent) > 100) return;
  found({map_head(Function::kMultiply),
         {g.node(n).inputs[0], number_term(1 / by.low, g.facts(g.class_of(n)).dtype, by.shape)}});
}

// A divisor that is repeated is inverted once; all in the precision of the division.
void divide_by_repeated(const EGraph& g, NodeId n, const Found& found) {
  if (!g.head(n).is(Function::kDivide)) return;
  ClassId by = g.node(n).inputs[1];
  if (!g.facts(by).is_float() || is_one_number(g.facts(by))) return;
  if (g.facts(g.node(n).inputs[0]).is_number(1)) return;  // it is the inverse
  for (NodeId v : g.nodes_in(by, Primitive::kView)) {
    ClassId source = g.node(v).inputs[0];
    const Facts& facts = g.facts(source);
    if (algebra::count_elements(facts.shape) >= algebra::count_elements(g.facts(by).shape)) continue;
    Term inverse(map_head(Function::kDivide), {number_term(1, DType::kI64, facts.shape), source});
    found({map_head(Function::kMultiply),
           {g.node(n).inputs[0], view_term(inverse, facts.shape, g.head(v).map, g.facts(by).shape)}});
  }
}

// (a p + b) / p = a and (a p + b) mod p = b for integers a >= 0, 0 <= b < p.
void index_of_row(const EGraph& g, NodeId n, const Found& found) {
  bool divides = g.head(n).is(Function::kFloorDivide);
  if (!divides && !g.head(n).is(Function::kModulo)) return;
  const Facts& p = g.facts(g.node(n).inputs[1]);
  if (!is_one_number(p) || p.low <= 0) return;
  for (NodeId sum : g.nodes_in(g.node(n).inputs[0], Primitive::kMap)) {
    if (!g.head(sum).is(Function::kAdd)) continue;
    ClassId product = g.node(sum).inputs[0], b = g.node(sum).inputs[1];
    const Facts& rest = g.facts(b);
    if (rest.is_float() || rest.low < 0 || rest.high > p.low - 1) continue;
    for (NodeId k : g.nodes_in(product, Primitive::kMap)) {
      if (!g.head(k).is(Function::kMultiply)) continue;
      ClassId a = g.node(k).inputs[0];
      const Facts& row = g.facts(a);
      if (!g.facts(g.node(k).inputs[1]).is_number(p.low) || row.is_float() || !row.not_negative()) continue;
      ClassId result = divides ? a : b;
      if (g.facts(result).dtype == DType::kI64) found(result);
    }
  }
}

}  // namespace

const std::vector<Rule>& algebra_rules() {
  static const std::vector<Rule> rules = {
      {"view_of_view", "view(view(x)) = view(x)", Primitive::kView, view_of_view},
      {"view_of_map", "view(f(x, y)) = f(view(x), view(y))", Primitive::kView, view_of_map},
      {"map_of_views", "f(view(x), view(y)) = view(f(x, y)) where x is smaller than its view", Primitive::kMap,
       map_of_views},
      {"commute", "f(x, y) = f(y, x) for + * max min == and or", Primitive::kMap, commute},
      {"factor_out_of_sum", "sum(x * view(y)) = sum(x) * view(y) where y does not change along the axis",
       Primitive::kReduce, factor_out_of_sum},
      {"cast_of_cast", "cast(cast(x)) = cast(x) where the inner cast is exact", Primitive::kCast, cast_of_cast},
      {"reshape_of_reshape", "reshape(reshape(x)) = reshape(x)", Primitive::kReshape, reshape_of_reshape},
      {"reshape_of_map", "reshape(f(x, y)) = f(reshape(x), reshape(y))", Primitive::kReshape, reshape_of_map},
      {"reshape_is_view", "reshape(x) = view(x) where only extents of 1 come and go", Primitive::kReshape,
       reshape_is_view},
      {"divide_by_power_of_two", "x / 2^k = x * 2^-k", Primitive::kMap, divide_by_power_of_two},
      {"divide_by_repeated", "x / view(y) = x * view(1 / y) where y is smaller than its view", Primitive::kMap,
       divide_by_repeated},
      {"index_of_row", "(a p + b) / p = a and (a p + b) mod p = b where a >= 0 and 0 <= b < p", Primitive::kMap,
       index_of_row},
  };
  return rules;
}

}  // namespace fk
