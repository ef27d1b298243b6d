#include "compiler/egraph/facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace fk {
namespace {

using algebra::Function;
using algebra::Head;
using algebra::Primitive;

struct RangeEnds {
  double low = -INFINITY, high = INFINITY;
};

// Sums and products of bounds are rounded; bounds of real numbers are widened by more than that.
RangeEnds widened(RangeEnds b) {
  constexpr double kSlack = 1e-12;
  return {b.low - kSlack * std::abs(b.low), b.high + kSlack * std::abs(b.high)};
}

RangeEnds bounds_of(const Facts& f) { return {f.low, f.high}; }

RangeEnds product(RangeEnds a, RangeEnds b) {
  RangeEnds all{INFINITY, -INFINITY};
  for (double x : {a.low, a.high})
    for (double y : {b.low, b.high}) {
      double p = x * y;
      if (std::isnan(p)) return {};  // of zero and infinity
      all = {std::min(all.low, p), std::max(all.high, p)};
    }
  return all;
}

RangeEnds map_bounds(Function f, const std::vector<const Facts*>& x) {
  RangeEnds a = bounds_of(*x[0]), b = x.size() > 1 ? bounds_of(*x[1]) : RangeEnds{};
  switch (f) {
    case Function::kAdd:
      return {a.low + b.low, a.high + b.high};
    case Function::kSubtract:
      return {a.low - b.high, a.high - b.low};
    case Function::kMultiply:
      return product(a, b);
    case Function::kMaximum:
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    case Function::kMinimum:
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case Function::kFloorDivide:
      if (a.low >= 0 && b.low > 0) return {std::floor(a.low / b.high), std::floor(a.high / b.low)};
      return {};
    case Function::kModulo:
      if (a.low >= 0 && b.low > 0) return {0, std::min(a.high, b.high - 1)};
      return {};
    case Function::kNegate:
      return {-a.high, -a.low};
    case Function::kAbs:
      return {a.low > 0 ? a.low : a.high < 0 ? -a.high : 0, std::max(std::abs(a.low), std::abs(a.high))};
    case Function::kExp:
    case Function::kSqrt:
      return {0, INFINITY};
    case Function::kErfc:
      return {0, 2};
    case Function::kSin:
    case Function::kCos:
    case Function::kTanh:
      return {-1, 1};
    case Function::kLess:
    case Function::kEqual:
    case Function::kAnd:
    case Function::kOr:
    case Function::kNot:
    case Function::kIsNan:
      return {0, 1};
    case Function::kSelect:
      return {std::min(x[1]->low, x[2]->low), std::max(x[1]->high, x[2]->high)};
    default:
      return {};
  }
}

bool keeps_stored(Function f) {
  return f == Function::kSelect || f == Function::kMaximum || f == Function::kMinimum || f == Function::kNegate ||
         f == Function::kAbs;
}

}  // namespace

bool holds_all_of(DType to, DType from) {
  if (to == from || to == DType::kF64) return to == from || from != DType::kI64;
  if (to == DType::kF32) return dtype_is_float(from) ? from != DType::kF64 : dtype_size(from) == 1;
  if (to == DType::kF16) return from == DType::kF8E4M3 || from == DType::kF8E5M2 || dtype_size(from) == 1;
  if (to == DType::kBF16) return dtype_is_float(from) ? dtype_size(from) == 1 : dtype_size(from) == 1;
  if (to == DType::kI64) return !dtype_is_float(from);
  if (to == DType::kI32) return !dtype_is_float(from) && dtype_size(from) == 1;
  return false;
}

Facts facts_of(const Head& head, const std::vector<const Facts*>& x) {
  std::vector<Head> typed(x.size());
  std::vector<const Head*> heads;
  for (size_t i = 0; i < x.size(); ++i) {
    typed[i].dtype = x[i]->dtype;
    typed[i].shape = x[i]->shape;
    heads.push_back(&typed[i]);
  }
  algebra::Inferred type = algebra::infer(head, heads);
  Facts facts{type.dtype, type.shape, -INFINITY, INFINITY};
  RangeEnds bounds;
  switch (head.primitive) {
    case Primitive::kInput:
    case Primitive::kCall:
      facts.stored = true;
      break;
    case Primitive::kConstant:
      bounds = {head.value, head.value};
      facts.stored = !facts.is_float();
      break;
    case Primitive::kTable:
      bounds = {INFINITY, -INFINITY};
      for (double v : head.table) bounds = {std::min(bounds.low, v), std::max(bounds.high, v)};
      if (head.table.empty()) bounds = {};
      break;
    case Primitive::kIota:
      bounds = {0, static_cast<double>(std::max<int64_t>(head.shape[static_cast<size_t>(head.axis)] - 1, 0))};
      facts.stored = true;
      break;
    case Primitive::kView:
    case Primitive::kReshape:
      bounds = bounds_of(*x[0]);
      facts.stored = x[0]->stored;
      break;
    case Primitive::kCast:
      // Rounding moves a number by less than itself; what it does to bounds is not needed but for integers.
      if (!facts.is_float() && !x[0]->is_float()) bounds = bounds_of(*x[0]);
      if (x[0]->low >= 0) bounds.low = std::max(bounds.low, 0.0);
      facts.stored = true;
      break;
    case Primitive::kMap:
      bounds = map_bounds(head.function, x);
      if (keeps_stored(head.function)) {
        facts.stored = true;
        for (size_t i = head.function == Function::kSelect ? 1 : 0; i < x.size(); ++i)
          facts.stored = facts.stored && x[i]->stored && x[i]->dtype == facts.dtype;
      }
      break;
    case Primitive::kReduce:
      if (x[0]->shape[static_cast<size_t>(head.axis)] == 0) break;
      if (head.fold == algebra::Fold::kMax || head.fold == algebra::Fold::kMin) {
        bounds = bounds_of(*x[0]);
        facts.stored = x[0]->stored;
      } else {
        bounds = {x[0]->low >= 0 ? 0 : -INFINITY, head.fold == algebra::Fold::kAny ? 1 : INFINITY};
      }
      break;
    case Primitive::kScan:
      if (x[0]->low >= 0) bounds.low = 0;
      break;
    case Primitive::kGather:  // 0 where there is no such index
      bounds = {std::min(x[0]->low, 0.0), std::max(x[0]->high, 0.0)};
      facts.stored = x[0]->stored;
      break;
    case Primitive::kScatter:
      bounds = {std::min(x[0]->low, x[2]->low), std::max(x[0]->high, x[2]->high)};
      facts.stored = x[0]->stored && x[2]->stored;
      break;
  }
  if (facts.is_float() && !head.is(Primitive::kConstant)) bounds = widened(bounds);
  facts.low = bounds.low;
  facts.high = bounds.high;
  return facts;
}

bool merge_facts(Facts& facts, const Facts& other) {
  double low = std::max(facts.low, other.low), high = std::min(facts.high, other.high);
  // Empty arrays have no elements that could contradict.
  bool apart = low > high && algebra::count_elements(facts.shape) > 0;
  if (facts.dtype != other.dtype || facts.shape != other.shape || apart)
    throw Error("A rule made two expressions equal that cannot be: {} and {}.", facts_text(facts), facts_text(other));
  // Bounds that shrink by next to nothing must not be passed on for ever around a cycle.
  auto shrinks = [](double from, double to) { return from != to && !(std::abs(to - from) <= 1e-9 * std::abs(to)); };
  bool more = shrinks(facts.low, low) || shrinks(facts.high, high) || (other.stored && !facts.stored);
  facts.low = low;
  facts.high = high;
  facts.stored = facts.stored || other.stored;
  return more;
}

std::string facts_text(const Facts& f) {
  std::string text = fmt::format("{} [{}]", dtype_name(f.dtype), fmt::join(f.shape, ", "));
  if (std::isfinite(f.low) || std::isfinite(f.high))
    text += fmt::format(" in {} .. {}", algebra::number_text(f.low), algebra::number_text(f.high));
  return text;
}

}  // namespace fk
