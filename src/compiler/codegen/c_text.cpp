#include "compiler/codegen/c_text.h"

#include <fmt/format.h>

#include <cmath>

#include "compiler/codegen/loop_nest.h"

namespace fk {

using algebra::Expr;
using algebra::Function;

std::string index_text(const Index& index) {
  if (!index.text.empty()) return index.text;
  std::string text;
  for (size_t v = 0; v < index.factors.size(); ++v) {
    int64_t f = index.factors[v];
    if (f == 0) continue;
    std::string name = v + 1 == index.factors.size() ? "i" : fmt::format("l{}", v);
    std::string term = std::abs(f) == 1 ? name : fmt::format("{} * {}", name, std::abs(f));
    text += text.empty() ? (f < 0 ? "-" : "") + term : (f < 0 ? " - " : " + ") + term;
  }
  if (text.empty()) return fmt::to_string(index.start);
  if (index.start != 0) text += fmt::format(" {} {}", index.start < 0 ? '-' : '+', std::abs(index.start));
  return text;
}

namespace {

// index / divisor % extent
Index part_of(const Index& index, int64_t divisor, int64_t extent) {
  Index part{0, std::vector<int64_t>(index.factors.size(), 0)};
  const std::string divided = divisor == 1 ? "" : fmt::format(" / {}", divisor);
  part.text = fmt::format("(({}){} % {})", index_text(index), divided, extent);
  part.text_uses_i = index.uses_i();
  return part;
}

}  // namespace

std::vector<Index> index_before_reshape(const algebra::Extents& from, const algebra::Extents& to,
                                        const std::vector<Index>& at, size_t num_variables) {
  std::vector<Index> inner;
  size_t j = 0;
  for (size_t d = 0; d < from.size(); ++d) {
    const int64_t extent = from[d];
    if (extent > 1 && j < to.size() && to[j] > extent && to[j] < kVaryingExtent) {
      int64_t joined = 1;
      size_t end = d;
      while (end < from.size() && joined < to[j]) joined *= from[end++];
      if (joined != to[j]) throw NoLoops("a reshape joins dimensions");
      for (; joined > 1; ++d) {
        joined /= from[d];
        inner.push_back(part_of(at[j], joined, from[d]));
      }
      --d;
      ++j;
      continue;
    }
    Index index{0, std::vector<int64_t>(num_variables, 0)};
    for (int64_t product = 1; product != extent; ++j) {
      if (j == to.size() || extent % to[j] != 0 || !at[j].text.empty()) throw NoLoops("a reshape joins dimensions");
      product *= to[j];
      index.start = index.start * to[j] + at[j].start;
      for (size_t v = 0; v < index.factors.size(); ++v) index.factors[v] = index.factors[v] * to[j] + at[j].factors[v];
    }
    inner.push_back(index);
  }
  return inner;
}

DType computed_as(DType dtype) {
  if (dtype == DType::kF64 || dtype == DType::kBool) return dtype;
  return dtype_is_float(dtype) ? DType::kF32 : DType::kI64;
}

std::string_view c_name(DType computed) {
  return computed == DType::kF64   ? "double"
         : computed == DType::kF32 ? "float"
         : computed == DType::kI64 ? "int64_t"
                                   : "bool";
}

std::string number_code(double value, DType as) {
  if (std::isinf(value)) return value < 0 ? "(-INFINITY)" : "INFINITY";
  std::string text = algebra::number_text(value);
  if (as == DType::kI64 || as == DType::kBool) return text;
  if (text.find_first_of(".e") == text.npos) text += ".0";
  if (as == DType::kF32) text += "f";
  return value < 0 ? "(" + text + ")" : text;
}

std::string converted(const Code& code, DType to) {
  if (code.dtype == to) return code.text;
  if (code.number) return number_code(*code.number, to);
  return fmt::format("{}({})", c_name(to), code.text);
}

std::string unwrapped(const std::string& text) {
  if (text.empty() || text.front() != '(') return text;
  int depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (depth == 0) return at + 1 == text.size() ? text.substr(1, at - 1) : text;
  }
  return text;
}

Code rounded(const Code& x, DType to) {
  switch (to) {
    case DType::kBF16:
      return {fmt::format("float(fk::bf16({}))", converted(x, DType::kF32)), DType::kF32};
    case DType::kF16:
      return {fmt::format("float(fk::f16({}))", converted(x, DType::kF32)), DType::kF32};
    case DType::kF32:
    case DType::kF64:
    case DType::kI64:
      return {converted(x, to), to};
    case DType::kI32:
      return {fmt::format("int64_t(int32_t({}))", x.text), DType::kI64};
    default:
      throw NoLoops(fmt::format("there is no rounding to {}", dtype_name(to)));
  }
}

Code applied(const Expr& e, const std::vector<Code>& x) {
  const Function f = e.head().function;
  DType result = computed_as(e.dtype());
  DType common = DType::kI64;  // of the operands of a comparison
  for (const Code& c : x)
    if (c.dtype == DType::kF64 || (c.dtype == DType::kF32 && common != DType::kF64)) common = c.dtype;
  auto as = [&](size_t i) { return converted(x[i], result); };
  auto infix = [&](std::string_view op) { return Code{fmt::format("({} {} {})", as(0), op, as(1)), result}; };
  auto call = [&](std::string_view name) {
    std::string list = as(0);
    for (size_t i = 1; i < x.size(); ++i) list += ", " + as(i);
    return Code{fmt::format("{}({})", name, list), result};
  };
  auto compare = [&](std::string_view op) {
    return Code{fmt::format("({} {} {})", converted(x[0], common), op, converted(x[1], common)), DType::kBool};
  };
  switch (f) {
    case Function::kAdd:
      return infix("+");
    case Function::kSubtract:
      return infix("-");
    case Function::kMultiply:
      return infix("*");
    case Function::kDivide:
    case Function::kFloorDivide:  // of integers that are not negative
      return infix("/");
    case Function::kModulo:
      return infix("%");
    case Function::kMaximum:
      return call("larger");
    case Function::kMinimum:
      return call("smaller");
    case Function::kNegate:
      return {fmt::format("(-{})", as(0)), result};
    case Function::kAbs:
      return call("magnitude");
    case Function::kExp:
      return call("exponential");
    case Function::kLog:
      return call("logarithm");
    case Function::kSqrt:
      return call(result == DType::kF64 ? "sqrt" : "sqrtf");
    case Function::kSin:
      return call("sine");
    case Function::kCos:
      return call("cosine");
    case Function::kTanh:
      return call("hyperbolic_tangent");
    case Function::kErfc:
      return call("error_complement");
    case Function::kFloor:
      return call(result == DType::kF64 ? "floor" : "floorf");
    case Function::kRound:
      return call(result == DType::kF64 ? "nearbyint" : "nearbyintf");
    case Function::kLess:
      return compare("<");
    case Function::kEqual:
      return compare("==");
    case Function::kAnd:
      return infix("&");
    case Function::kOr:
      return infix("|");
    case Function::kNot:
      return {fmt::format("(!{})", as(0)), result};
    case Function::kIsNan:
      return {fmt::format("({0} != {0})", x[0].text), result};
    case Function::kSelect:
      return {fmt::format("({} ? {} : {})", converted(x[0], DType::kBool), as(1), as(2)), result};
  }
  throw NoLoops("there is no such function");
}

std::string_view element_name(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "double";
    case DType::kF32:
      return "float";
    case DType::kF16:
      return "fk::f16";
    case DType::kBF16:
      return "fk::bf16";
    case DType::kI8:
      return "int8_t";
    case DType::kU8:
      return "uint8_t";
    case DType::kI32:
      return "int32_t";
    case DType::kI64:
      return "int64_t";
    default:
      return "bool";
  }
}

}  // namespace fk
