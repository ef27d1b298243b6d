#include "compiler/codegen/row_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "compiler/codegen/element_text.h"

namespace fk {

using algebra::Expr;
using algebra::Extents;
using algebra::Fold;
using algebra::Function;
using algebra::Primitive;

namespace {

bool varies(int64_t extent) { return extent >= kVaryingExtent; }

bool is_number(const RowValue& v, int64_t n) { return v.code.number && *v.code.number == static_cast<double>(n); }
std::string plain(const RowValue& v) {
  return v.code.number ? fmt::to_string(static_cast<int64_t>(*v.code.number)) : v.code.text;
}

RowValue sum_of(const RowValue& a, const RowValue& b, char sign) {
  if (is_number(b, 0)) return a;
  if (is_number(a, 0) && sign == '+') return b;
  RowValue v = index_value(fmt::format("({} {} {})", plain(a), sign, plain(b)));
  v.keys = sign == '+' ? a.keys + b.keys : a.keys - b.keys;
  v.rest = fmt::format("({} {} {})", a.rest, sign, b.rest);
  v.linear = a.linear && b.linear;
  // A page and a place in it.
  if (sign == '+' && a.factor > 0 && a.low == "0" && b.below > 0 && b.below <= a.factor)
    v.factor = a.factor, v.high = a.high, v.low = plain(b);
  return v;
}
RowValue times(const RowValue& a, int64_t factor) {
  if (factor == 1) return a;
  if (factor == 0) return number_value(0);
  if (a.code.number) return number_value(static_cast<int64_t>(*a.code.number) * factor);
  RowValue v = index_value(fmt::format("({} * {})", a.code.text, factor));
  v.keys = a.keys * factor;
  v.rest = fmt::format("({} * {})", a.rest, factor);
  v.linear = a.linear;
  v.factor = factor, v.high = a.code.text, v.low = "0";
  return v;
}
RowValue divided(const RowValue& a, int64_t by) {
  if (by == 1) return a;
  RowValue v = index_value(a.factor == by ? a.high : fmt::format("({} / {})", plain(a), by));
  v.linear = !a.depends_on_key();
  return v;
}
RowValue remainder(const RowValue& a, int64_t by) {
  if (by == 1) return number_value(0);
  RowValue v = index_value(a.factor == by ? a.low : fmt::format("({} % {})", plain(a), by), by);
  v.linear = !a.depends_on_key();
  return v;
}

std::vector<RowValue> view_index(const Expr& e, const std::vector<RowValue>& at) {
  std::vector<RowValue> inner;
  for (size_t d = 0; d < static_cast<size_t>(e.inputs()[0].rank()); ++d) {
    RowValue place = number_value(0);
    for (size_t o = 0; o < at.size(); ++o)
      if (const int64_t f = e.head().map.factors[d][o]; f != 0)
        place = sum_of(place, times(at[o], f < 0 ? -f : f), f < 0 ? '-' : '+');
    if (const int64_t start = e.head().map.start[d]; start != 0)
      place = sum_of(place, number_value(start < 0 ? -start : start), start < 0 ? '-' : '+');
    inner.push_back(place);
  }
  return inner;
}

// The index in the input of a reshape. Neighbouring dimensions that have as many elements on both sides belong
// together; there all extents but the first are written into the text, so they must not vary.
std::vector<RowValue> reshape_index(const Expr& e, const std::vector<RowValue>& at) {
  const Extents &to = e.shape(), &from = e.inputs()[0].shape();
  std::vector<RowValue> inner;
  size_t o = 0, i = 0;
  while (o < to.size() || i < from.size()) {
    int64_t outer_count = 1, inner_count = 1;
    const size_t first_o = o, first_i = i;
    do {
      const bool more_outer = i == from.size() || (o < to.size() && outer_count <= inner_count);
      if (more_outer)
        outer_count *= to[o++];
      else
        inner_count *= from[i++];
    } while (outer_count != inner_count || (o == first_o && o < to.size()) || (i == first_i && i < from.size()));
    // Extents of 1 at the end belong to the last group.
    if (i == from.size())
      while (o < to.size() && to[o] == 1) ++o;
    if (o == to.size())
      while (i < from.size() && from[i] == 1) ++i;
    RowValue merged = number_value(0);
    for (size_t d = first_o; d < o; ++d) {
      if (to[d] == 1) continue;
      const bool is_first = is_number(merged, 0);
      if (!is_first && varies(to[d])) throw NoLoops("an extent that varies is inside of a row");
      merged = is_first ? at[d] : sum_of(times(merged, to[d]), at[d], '+');
    }
    std::vector<RowValue> parts(i - first_i, number_value(0));
    size_t left = 0;  // dimensions with more than one element
    for (size_t d = first_i; d < i; ++d) left += from[d] != 1 ? 1 : 0;
    for (size_t d = i; d-- > first_i;) {
      if (from[d] == 1) continue;
      if (--left == 0) {
        parts[d - first_i] = merged;
        break;
      }
      if (varies(from[d])) throw NoLoops("an extent that varies is inside of a row");
      parts[d - first_i] = remainder(merged, from[d]);
      merged = divided(merged, from[d]);
    }
    inner.insert(inner.end(), parts.begin(), parts.end());
  }
  return inner;
}

}  // namespace

RowValue index_value(std::string text, int64_t below) {
  RowValue v;
  v.code = {text, DType::kI64};
  v.rest = std::move(text);
  v.below = below;
  return v;
}

RowValue key_value() {
  RowValue v = index_value("key");
  v.keys = 1;
  v.rest = "int64_t(0)";
  return v;
}

RowValue number_value(int64_t n) {
  RowValue v = index_value(fmt::format("int64_t({})", n), n >= 0 ? n + 1 : 0);
  v.code.number = static_cast<double>(n);
  return v;
}

RowValues::RowValues(const std::vector<Expr>& results) {
  std::set<const algebra::ExprNode*> seen;
  std::function<void(const Expr&)> visit = [&](const Expr& e) {
    if (!seen.insert(e.id()).second) return;
    if (e.head().is(Primitive::kInput)) extents_[e.head().name] = e.shape();
    for (const Expr& x : e.inputs()) visit(x);
  };
  for (const Expr& e : results) visit(e);
}

std::string BatchExtent::text() const {
  if (array.empty()) return fmt::format("int64_t({})", factor);
  std::string text = fmt::format("{}_n{}", array, dim);
  if (factor != 1) text = fmt::format("({} * {})", text, factor);
  return minus == 0 ? text : fmt::format("({} - {})", text, minus);
}

BatchExtent RowValues::extent_of(int64_t extent) const {
  if (!varies(extent)) return {.factor = extent};
  constexpr int64_t kLargestFactor = 4096;
  for (const int64_t minus : {0, 1})
    for (const auto& [name, shape] : extents_)
      for (size_t d = 0; d < shape.size(); ++d) {
        if (!varies(shape[d])) continue;
        const int64_t whole = extent + minus;
        const bool fits = minus == 0 ? whole % shape[d] == 0 && whole / shape[d] <= kLargestFactor : whole == shape[d];
        if (fits) return {name, d, whole / shape[d], minus};
      }
  throw NoLoops("no array has an extent of this size");
}

std::vector<std::string> RowValues::variables() const {
  std::vector<std::string> names;
  for (const auto& [what, name] : known_) names.push_back(name);
  return names;
}

RowValue RowValues::element(const Expr& e, const std::vector<RowValue>& at) {
  if (auto named = named_.find(e.id()); named != named_.end()) {
    RowValue v;
    v.code = named->second;
    return v;
  }
  switch (e.head().primitive) {
    case Primitive::kConstant: {
      const double value = e.head().value;
      if (computed_as(e.dtype()) == DType::kI64) return number_value(static_cast<int64_t>(value));
      RowValue v;
      v.code = {number_code(value, computed_as(e.dtype())), computed_as(e.dtype()), value};
      return v;
    }
    case Primitive::kIota: {
      RowValue v = at[static_cast<size_t>(e.head().axis)];
      const int64_t extent = e.size(e.head().axis);
      if (extent == 1) return number_value(0);
      if (!varies(extent) && v.below == 0) v.below = extent;
      return v;
    }
    case Primitive::kView:
      return element(e.inputs()[0], view_index(e, at));
    case Primitive::kReshape:
      return element(e.inputs()[0], reshape_index(e, at));
    case Primitive::kMap:
      return mapped(e, at);
    case Primitive::kCast: {
      RowValue v = element(e.inputs()[0], at);
      if (computed_as(e.dtype()) != v.code.dtype) throw NoLoops("an index is rounded");
      return v;
    }
    case Primitive::kReduce:
      return summed(e, at);
    case Primitive::kGather: {
      if (e.head().axis != 0) throw NoLoops("rows are gathered along another axis than the first");
      const auto rank = static_cast<std::ptrdiff_t>(e.inputs()[1].rank());
      const RowValue index = element(e.inputs()[1], {at.begin(), at.begin() + rank});
      std::vector<RowValue> inner{index};
      inner.insert(inner.end(), at.begin() + rank, at.end());
      RowValue v = element(e.inputs()[0], inner);
      // 0 where there is no such row.
      v.code = {fmt::format("({0} >= 0 && {0} < {1} ? {2} : {3})", index.code.text,
                            extent_of(e.inputs()[0].size(0)).text(), v.code.text, number_code(0, v.code.dtype)),
                v.code.dtype};
      RowValue guarded = index_value(v.code.text);
      guarded.code = v.code;
      guarded.linear = !v.depends_on_key() && !index.depends_on_key();
      return guarded;
    }
    case Primitive::kInput:
      return loaded(e, at);
    default:
      throw NoLoops("a row has no such elements");
  }
}

RowValue RowValues::mapped(const Expr& e, const std::vector<RowValue>& at) {
  std::vector<RowValue> x;
  for (const Expr& i : e.inputs()) x.push_back(element(i, at));
  auto is_integer = [](const RowValue& v) { return v.code.dtype == DType::kI64; };
  const bool integers = std::all_of(x.begin(), x.end(), is_integer);
  if (integers && e.head().is(Function::kAdd)) return sum_of(x[0], x[1], '+');
  if (integers && e.head().is(Function::kSubtract)) return sum_of(x[0], x[1], '-');
  if (integers && e.head().is(Function::kMultiply) && x[1].code.number)
    return times(x[0], static_cast<int64_t>(*x[1].code.number));
  std::vector<Code> codes;
  bool depends = false;
  for (const RowValue& v : x) {
    codes.push_back(v.code);
    depends = depends || v.depends_on_key();
  }
  const Code code = applied(e, codes);
  RowValue v = index_value(code.text);
  v.code = code;
  v.linear = !depends;
  return v;
}

// A sum along an extent of the batch, as a loop: which sequence a row is in.
RowValue RowValues::summed(const Expr& e, const std::vector<RowValue>& at) {
  if (e.head().fold != Fold::kSum || computed_as(e.dtype()) != DType::kI64 || in_sum_)
    throw NoLoops("a row needs a reduction that is no sum of integers");
  const auto axis = static_cast<size_t>(e.head().axis);
  const std::string index = fmt::format("i{}", sums_);
  std::vector<RowValue> inner = at;
  inner[axis] = index_value(index);
  in_sum_ = true;
  const RowValue term = element(e.inputs()[0], inner);
  in_sum_ = false;
  for (const RowValue& v : at)
    if (v.depends_on_key()) throw NoLoops("a sum depends on the key");
  const std::string extent = extent_of(e.inputs()[0].shape()[axis]).text();
  const std::string what = with_words(fmt::format("{} {}", extent, term.code.text), [&](std::string_view word) {
    return word == index ? std::string("i") : std::string();
  });
  auto [variable, is_new] = known_.try_emplace(what, fmt::format("sum{}", sums_));
  if (is_new) {
    lines_.push_back(fmt::format("int64_t {0} = 0;", variable->second));
    lines_.push_back(fmt::format("for (int64_t {0} = 0; {0} < {1}; ++{0}) {2} += {3};", index, extent, variable->second,
                                 unwrapped(term.code.text)));
    ++sums_;
  }
  return index_value(variable->second);
}

RowValue RowValues::loaded(const Expr& e, const std::vector<RowValue>& at) {
  const RowAddress address{e.head().name, at};
  used_[address.array] = {e.dtype(), e.shape().size()};
  const DType as = computed_as(e.dtype());
  RowValue v = index_value(fmt::format("{}({}_p[{}])", c_name(as), address.array, offset(address)));
  v.code.dtype = as;
  for (const RowValue& i : at) v.linear = v.linear && !i.depends_on_key();
  return v;
}

RowAddress RowValues::address(const Expr& e, std::vector<RowValue> at, std::string& hoisted) {
  switch (e.head().primitive) {
    case Primitive::kView:
      return address(e.inputs()[0], view_index(e, at), hoisted);
    case Primitive::kReshape:
      return address(e.inputs()[0], reshape_index(e, at), hoisted);
    case Primitive::kGather: {
      if (e.head().axis != 0) throw NoLoops("rows are gathered along another axis than the first");
      const auto rank = static_cast<std::ptrdiff_t>(e.inputs()[1].rank());
      std::vector<RowValue> of_index(at.begin(), at.begin() + rank);
      RowValue index = element(e.inputs()[1], of_index);
      if (!index.depends_on_key() && !has_word(index.code.text, "source")) {
        if (!hoisted.empty() && hoisted != index.code.text) throw NoLoops("keys come from two places");
        hoisted = index.code.text;
        index = index_value("source");
      }
      std::vector<RowValue> inner{index};
      inner.insert(inner.end(), at.begin() + rank, at.end());
      return address(e.inputs()[0], inner, hoisted);
    }
    case Primitive::kInput:
      used_[e.head().name] = {e.dtype(), e.shape().size()};
      return {e.head().name, std::move(at)};
    default:
      throw NoLoops("rows are computed and not only read");
  }
}

std::string RowValues::offset(const RowAddress& address) const {
  std::string text;
  for (size_t d = 0; d < address.index.size(); ++d) {
    if (is_number(address.index[d], 0)) continue;
    std::string term = plain(address.index[d]);
    if (d + 1 < address.index.size()) term += fmt::format(" * {}_s{}", address.array, d);
    text += text.empty() ? term : " + " + term;
  }
  return text.empty() ? "0" : text;
}

}  // namespace fk
