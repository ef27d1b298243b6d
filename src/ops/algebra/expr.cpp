#include "ops/algebra/expr.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <tuple>

#include "core/error.h"

namespace fk::algebra {
namespace {

// What a scalar function keeps of numbers of these types: integers, or at least f32.
DType wider(DType a, DType b) {
  if (a == DType::kF64 || b == DType::kF64) return DType::kF64;
  return dtype_is_float(a) || dtype_is_float(b) ? DType::kF32 : DType::kI64;
}

size_t arity(Function f) {
  if (f == Function::kSelect) return 3;
  bool unary = f >= Function::kNegate && f <= Function::kRound;
  return unary || f == Function::kNot || f == Function::kIsNan ? 1 : 2;
}

DType result_dtype(Function f, const std::vector<const Head*>& x) {
  switch (f) {
    case Function::kLess:
    case Function::kEqual:
    case Function::kAnd:
    case Function::kOr:
    case Function::kNot:
    case Function::kIsNan:
      return DType::kBool;
    case Function::kSelect:  // these return one of their inputs, unrounded
      return x[1]->dtype == x[2]->dtype ? x[1]->dtype : wider(x[1]->dtype, x[2]->dtype);
    case Function::kMaximum:
    case Function::kMinimum:
      return x[0]->dtype == x[1]->dtype ? x[0]->dtype : wider(x[0]->dtype, x[1]->dtype);
    case Function::kAdd:
    case Function::kSubtract:
    case Function::kMultiply:
      return wider(x[0]->dtype, x[1]->dtype);
    case Function::kDivide:
      return wider(wider(x[0]->dtype, x[1]->dtype), DType::kF32);
    case Function::kFloorDivide:
    case Function::kModulo:
      return DType::kI64;
    case Function::kNegate:
    case Function::kAbs:
      return x[0]->dtype;
    default:
      return wider(x[0]->dtype, DType::kF32);
  }
}

std::string shape_text(const Extents& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

void check_map(const IndexMap& map, const Extents& from, const Extents& to) {
  auto fail = [&] { throw Error("A view of {} as {} would read outside.", shape_text(from), shape_text(to)); };
  if (map.start.size() != from.size() || map.factors.size() != from.size()) fail();
  if (count_elements(to) == 0) return;
  for (size_t d = 0; d < from.size(); ++d) {
    if (map.factors[d].size() != to.size()) fail();
    int64_t low = map.start[d], high = map.start[d];
    for (size_t j = 0; j < to.size(); ++j) (map.factors[d][j] < 0 ? low : high) += map.factors[d][j] * (to[j] - 1);
    if (low < 0 || high >= from[d]) fail();
  }
}

int axis_of(int axis, size_t rank) {
  int at = axis < 0 ? axis + static_cast<int>(rank) : axis;
  if (at < 0 || at >= static_cast<int>(rank)) throw Error("An array of rank {} has no axis {}.", rank, axis);
  return at;
}

}  // namespace

int64_t count_elements(const Extents& shape) {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

std::strong_ordering Head::operator<=>(const Head& o) const {
  auto bits = [](double x) { return std::bit_cast<uint64_t>(x); };
  auto fields = [](const Head& h) {
    return std::tie(h.primitive, h.function, h.fold, h.axis, h.dtype, h.shape, h.name, h.map, h.callee);
  };
  if (auto order = fields(*this) <=> fields(o); order != 0) return order;
  if (auto order = bits(value) <=> bits(o.value); order != 0) return order;
  return std::lexicographical_compare_three_way(table.begin(), table.end(), o.table.begin(), o.table.end(),
                                                [&](double a, double b) { return bits(a) <=> bits(b); });
}

const Head& Expr::head() const { return node_->head; }
const std::vector<Expr>& Expr::inputs() const { return node_->inputs; }

Inferred infer(const Head& head, const std::vector<const Head*>& x) {
  auto expect = [&](size_t count) {
    if (x.size() != count)
      throw Error("The primitive {} has {} inputs instead of {}.", head_text(head), x.size(), count);
  };
  auto at = static_cast<size_t>(head.axis);
  switch (head.primitive) {
    case Primitive::kInput:
    case Primitive::kConstant:
    case Primitive::kTable:
    case Primitive::kIota:
      expect(0);
      if (head.is(Primitive::kTable) && static_cast<int64_t>(head.table.size()) != count_elements(head.shape))
        throw Error("A table of {} numbers has the shape {}.", head.table.size(), shape_text(head.shape));
      if (head.is(Primitive::kIota)) axis_of(head.axis, head.shape.size());
      return {head.shape, head.dtype};
    case Primitive::kView:
      expect(1);
      check_map(head.map, x[0]->shape, head.shape);
      return {head.shape, x[0]->dtype};
    case Primitive::kReshape:
      expect(1);
      if (count_elements(x[0]->shape) != count_elements(head.shape))
        throw Error("{} cannot be reshaped to {}.", shape_text(x[0]->shape), shape_text(head.shape));
      return {head.shape, x[0]->dtype};
    case Primitive::kMap:
      expect(arity(head.function));
      for (const Head* i : x)
        if (i->shape != x[0]->shape)
          throw Error("{} of {} and {}: the shapes differ.", head_text(head), shape_text(x[0]->shape),
                      shape_text(i->shape));
      return {x[0]->shape, result_dtype(head.function, x)};
    case Primitive::kCast:
      expect(1);
      return {x[0]->shape, head.dtype};
    case Primitive::kReduce: {
      expect(1);
      axis_of(head.axis, x[0]->shape.size());
      Extents shape = x[0]->shape;
      shape[at] = 1;
      bool sums = head.fold == Fold::kSum;
      return {shape, head.fold == Fold::kAny ? DType::kBool : sums ? wider(x[0]->dtype, x[0]->dtype) : x[0]->dtype};
    }
    case Primitive::kScan:
      expect(1);
      axis_of(head.axis, x[0]->shape.size());
      return {x[0]->shape, wider(x[0]->dtype, x[0]->dtype)};
    case Primitive::kGather: {
      expect(2);
      axis_of(head.axis, x[0]->shape.size());
      Extents shape(x[0]->shape.begin(), x[0]->shape.begin() + head.axis);
      shape.insert(shape.end(), x[1]->shape.begin(), x[1]->shape.end());
      shape.insert(shape.end(), x[0]->shape.begin() + head.axis + 1, x[0]->shape.end());
      return {shape, x[0]->dtype};
    }
    case Primitive::kScatter: {
      expect(3);
      Extents rows = x[0]->shape;
      if (x[1]->shape.size() == 1 && !rows.empty()) rows[0] = x[1]->shape[0];
      if (x[1]->shape.size() != 1 || x[2]->shape != rows || x[2]->dtype != x[0]->dtype)
        throw Error("Rows {} cannot be scattered into {} by {} indices.", shape_text(x[2]->shape),
                    shape_text(x[0]->shape), shape_text(x[1]->shape));
      return {x[0]->shape, x[0]->dtype};
    }
    case Primitive::kCall:
      expect(head.callee.inputs.size());
      return {head.shape, head.dtype};
  }
  return {head.shape, head.dtype};
}

Expr make_expr(Head head, std::vector<Expr> inputs) {
  std::vector<const Head*> heads;
  for (const Expr& x : inputs) heads.push_back(&x.head());
  auto [shape, dtype] = infer(head, heads);
  head.shape = std::move(shape);
  head.dtype = dtype;
  return Expr(std::make_shared<const ExprNode>(ExprNode{std::move(head), std::move(inputs)}));
}

Expr input(std::string name, DType dtype, Extents shape) {
  return make_expr({.primitive = Primitive::kInput, .name = std::move(name), .dtype = dtype, .shape = std::move(shape)},
                   {});
}

Expr constant(double value) {
  bool whole = value == std::floor(value) && std::abs(value) < 0x1p53;
  return make_expr({.value = value, .dtype = whole ? DType::kI64 : DType::kF32}, {});
}

Expr table(std::vector<double> numbers, DType dtype, Extents shape) {
  return make_expr(
      {.primitive = Primitive::kTable, .table = std::move(numbers), .dtype = dtype, .shape = std::move(shape)}, {});
}

Expr iota(Extents shape, int axis) {
  int at = axis_of(axis, shape.size());
  return make_expr({.primitive = Primitive::kIota, .axis = at, .dtype = DType::kI64, .shape = std::move(shape)}, {});
}

IndexMap identity_map(size_t rank) {
  IndexMap map{std::vector<int64_t>(rank, 0), std::vector<std::vector<int64_t>>(rank, std::vector<int64_t>(rank, 0))};
  for (size_t d = 0; d < rank; ++d) map.factors[d][d] = 1;
  return map;
}

IndexMap normalised(IndexMap map, const Extents& to) {
  for (std::vector<int64_t>& factors : map.factors)
    for (size_t j = 0; j < to.size(); ++j)
      if (to[j] <= 1) factors[j] = 0;
  return map;
}

bool is_identity(const IndexMap& map, const Extents& from, const Extents& to) {
  return from == to && normalised(map, to) == normalised(identity_map(from.size()), to);
}

IndexMap compose(const IndexMap& inner, const IndexMap& outer) {
  size_t rank = outer.factors.empty() ? 0 : outer.factors[0].size();
  IndexMap map = inner;
  for (size_t d = 0; d < inner.start.size(); ++d) {
    map.factors[d].assign(rank, 0);
    for (size_t m = 0; m < outer.start.size(); ++m) {
      map.start[d] += inner.factors[d][m] * outer.start[m];
      for (size_t j = 0; j < rank; ++j) map.factors[d][j] += inner.factors[d][m] * outer.factors[m][j];
    }
  }
  return map;
}

Expr view(Expr x, IndexMap map, Extents shape) {
  if (is_identity(map, x.shape(), shape)) return x;
  map = normalised(std::move(map), shape);
  return make_expr({.primitive = Primitive::kView, .map = std::move(map), .shape = std::move(shape)}, {std::move(x)});
}

Expr broadcast(Expr x, const Extents& shape) {
  if (x.shape() == shape) return x;
  size_t rank = x.shape().size(), lead = shape.size() - rank;
  if (rank > shape.size()) throw Error("{} cannot be repeated to {}.", shape_text(x.shape()), shape_text(shape));
  IndexMap map{std::vector<int64_t>(rank, 0),
               std::vector<std::vector<int64_t>>(rank, std::vector<int64_t>(shape.size(), 0))};
  for (size_t d = 0; d < rank; ++d) {
    if (x.shape()[d] != shape[lead + d] && x.shape()[d] != 1)
      throw Error("{} cannot be repeated to {}.", shape_text(x.shape()), shape_text(shape));
    if (x.shape()[d] == shape[lead + d] && shape[lead + d] != 1) map.factors[d][lead + d] = 1;
  }
  return view(std::move(x), std::move(map), shape);
}

Expr slice(Expr x, int axis, int64_t start, int64_t count, int64_t step) {
  auto at = static_cast<size_t>(axis_of(axis, x.shape().size()));
  IndexMap map = identity_map(x.shape().size());
  map.start[at] = start;
  map.factors[at][at] = step;
  Extents shape = x.shape();
  shape[at] = count;
  return view(std::move(x), std::move(map), std::move(shape));
}

Expr transpose(Expr x, int a, int b) {
  auto i = static_cast<size_t>(axis_of(a, x.shape().size())), j = static_cast<size_t>(axis_of(b, x.shape().size()));
  IndexMap map = identity_map(x.shape().size());
  std::swap(map.factors[i], map.factors[j]);
  Extents shape = x.shape();
  std::swap(shape[i], shape[j]);
  return view(std::move(x), std::move(map), std::move(shape));
}

Expr reshape(Expr x, Extents shape) {
  if (x.shape() == shape) return x;
  return make_expr({.primitive = Primitive::kReshape, .shape = std::move(shape)}, {std::move(x)});
}

Expr insert_axis(Expr x, int axis) {
  auto at = static_cast<size_t>(axis < 0 ? axis + x.rank() + 1 : axis);
  IndexMap map = identity_map(x.shape().size());
  for (std::vector<int64_t>& factors : map.factors) factors.insert(factors.begin() + static_cast<int64_t>(at), 0);
  Extents shape = x.shape();
  shape.insert(shape.begin() + static_cast<int64_t>(at), 1);
  return view(std::move(x), std::move(map), std::move(shape));
}

Expr drop_axis(Expr x, int axis) {
  auto at = static_cast<int64_t>(axis_of(axis, x.shape().size()));
  IndexMap map = identity_map(x.shape().size());
  for (std::vector<int64_t>& factors : map.factors) factors.erase(factors.begin() + at);
  Extents shape = x.shape();
  shape.erase(shape.begin() + at);
  return view(std::move(x), std::move(map), std::move(shape));
}

Expr map(Function function, std::vector<Expr> inputs) {
  Extents shape;
  for (const Expr& x : inputs) {
    const Extents& own = x.shape();
    if (own.size() > shape.size()) shape.insert(shape.begin(), own.size() - shape.size(), 1);
    size_t lead = shape.size() - own.size();
    for (size_t d = 0; d < own.size(); ++d)
      if (shape[lead + d] == 1) shape[lead + d] = own[d];
  }
  for (Expr& x : inputs) x = broadcast(std::move(x), shape);
  return make_expr({.primitive = Primitive::kMap, .function = function}, std::move(inputs));
}

Expr cast(Expr x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return make_expr({.primitive = Primitive::kCast, .dtype = dtype}, {std::move(x)});
}

Expr reduce(Fold fold, Expr x, int axis) {
  int at = axis_of(axis, x.shape().size());
  return make_expr({.primitive = Primitive::kReduce, .fold = fold, .axis = at}, {std::move(x)});
}

Expr scan(Expr x, int axis) {
  int at = axis_of(axis, x.shape().size());
  return make_expr({.primitive = Primitive::kScan, .axis = at}, {std::move(x)});
}

Expr gather(Expr x, Expr index, int axis) {
  int at = axis_of(axis, x.shape().size());
  return make_expr({.primitive = Primitive::kGather, .axis = at}, {std::move(x), std::move(index)});
}

Expr scatter(Expr x, Expr index, Expr rows) {
  return make_expr({.primitive = Primitive::kScatter}, {std::move(x), std::move(index), std::move(rows)});
}

Expr call(Callee callee, std::vector<Expr> inputs, DType dtype, Extents shape) {
  return make_expr(
      {.primitive = Primitive::kCall, .callee = std::move(callee), .dtype = dtype, .shape = std::move(shape)},
      std::move(inputs));
}

std::vector<Expr> substitute(const std::vector<Expr>& results, const std::function<Expr(const Expr& input)>& replace) {
  std::map<const ExprNode*, Expr> done;
  auto visit = [&](auto&& self, const Expr& e) -> Expr {
    if (auto at = done.find(e.id()); at != done.end()) return at->second;
    std::vector<Expr> inputs;
    for (const Expr& x : e.inputs()) inputs.push_back(self(self, x));
    Expr same = e.head().is(Primitive::kInput) ? replace(e) : make_expr(e.head(), std::move(inputs));
    if (same.shape() != e.shape() || same.dtype() != e.dtype())
      throw Error("'{}' is {} {} where {} {} was meant.", head_text(e.head()), dtype_name(same.dtype()),
                  shape_text(same.shape()), dtype_name(e.dtype()), shape_text(e.shape()));
    return done.emplace(e.id(), same).first->second;
  };
  std::vector<Expr> changed;
  for (const Expr& e : results) changed.push_back(visit(visit, e));
  return changed;
}

Expr softmax(const Expr& x, int axis) {
  Expr e = exp(x - largest(x, axis));
  return e / sum(e, axis);
}

}  // namespace fk::algebra
