#include "compiler/codegen/loop_nest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

namespace fk {
namespace {

using algebra::Expr;
using algebra::ExprNode;
using algebra::Extents;
using algebra::Fold;
using algebra::Function;
using algebra::Head;
using algebra::Primitive;

constexpr int64_t kLargestLocalArray = 16384;  // elements; 64 KiB of a thread's stack
constexpr int64_t kLargestUnrolled = 16;       // terms of a sum that is written out

// What has no such loops. Never leaves this file.
struct NoLoops : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The index in one dimension: a sum of multiples of the loop variables (the last is i), or a text.
struct Index {
  int64_t start = 0;
  std::vector<int64_t> factors;
  std::string text = {};  // not empty: this instead
  bool text_uses_i = false;

  bool uses_i() const { return text.empty() ? factors.back() != 0 : text_uses_i; }
  bool is_zero() const {
    return text.empty() && start == 0 && std::all_of(factors.begin(), factors.end(), [](int64_t f) { return f == 0; });
  }
};

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

// A value in C, of type float, double, int64_t or bool.
struct Code {
  std::string text;
  DType dtype;
  std::optional<double> number = {};  // where it is a constant
  std::string element = {};           // where it is only moved: the element, as it is stored
  DType element_dtype = DType::kF32;
};

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

// Without the parentheses around all of it.
std::string unwrapped(const std::string& text) {
  if (text.empty() || text.front() != '(') return text;
  int depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (depth == 0) return at + 1 == text.size() ? text.substr(1, at - 1) : text;
  }
  return text;
}

bool is_slow(const Head& head) {
  return head.is(Primitive::kMap) && head.function >= Function::kExp && head.function <= Function::kErfc;
}

class Lowering {
 public:
  explicit Lowering(LoopProgram& to) : to_(to) {}

  void run(const std::vector<algebra::NamedExpr>& results) {
    for (const algebra::NamedExpr& r : results) count_uses(r.expr);
    for (const algebra::NamedExpr& r : results) add_result(r);
  }

 private:
  void count_uses(const Expr& e) {
    if (uses_[e.id()]++ > 0) return;
    for (const Expr& x : e.inputs()) count_uses(x);
  }

  void add_result(const algebra::NamedExpr& result) {
    // Elements of a reshape are stored in the order in which they are computed.
    Expr e = result.expr;
    const DType stored = e.dtype();
    const Extents out = e.shape();
    bool reshaped = false;
    while (e.head().is(Primitive::kCast) || e.head().is(Primitive::kReshape)) {
      if (e.head().is(Primitive::kCast) && e.dtype() != stored) break;  // an earlier rounding
      reshaped = reshaped || e.head().is(Primitive::kReshape);
      e = e.inputs()[0];
    }
    Extents space = e.shape();
    if (space.empty() || space[0] != out[0]) throw NoLoops("a result is not computed row by row");
    if (space.size() == 1) space.push_back(1);
    for (size_t d = 1; d < space.size(); ++d)
      if (space[d] >= kVaryingExtent) throw NoLoops("an extent that varies is not the first");
    Extents leads(space.begin(), space.end() - 1);
    auto nest = std::find_if(to_.nests.begin(), to_.nests.end(), [&](const LoopNest& n) { return n.leads == leads; });
    if (nest == to_.nests.end()) {
      to_.nests.push_back({leads, result.name, {}});
      known_.emplace_back();
      nest = to_.nests.end() - 1;
    }
    now_ = static_cast<size_t>(nest - to_.nests.begin());
    std::vector<Index> at;
    for (size_t d = 0; d < e.shape().size(); ++d) at.push_back(variable(d));
    if (e.shape().size() == space.size()) at.back() = variable(leads.size());
    Code value = emit(e, at);
    bool moved = !value.element.empty() && value.element_dtype == stored;
    touch(result.name, stored, out.size(), true);
    statements().push_back({LoopStatement::Kind::kStore, result.name, stored,
                            moved ? value.element : unwrapped(value.text), space.back(), Fold::kSum,
                            store_index(result.name, out, space, reshaped)});
  }

  // Behind the first dimension a result is dense.
  std::string store_index(const std::string& name, const Extents& out, const Extents& space, bool reshaped) {
    std::vector<Index> at;
    if (!reshaped) {
      for (size_t d = 0; d < out.size(); ++d) at.push_back(variable(d));
      if (out.size() == space.size()) at.back() = variable(space.size() - 1);
      return address(name, out, at);
    }
    Index within = variable(space.size() - 1);
    int64_t stride = space.back();
    for (size_t d = space.size() - 1; d-- > 1; stride *= space[d]) within.factors[d] = stride;
    return fmt::format("l0 * {}_s0 + {}", name, index_text(within));
  }

  size_t num_variables() const { return to_.nests[now_].leads.size() + 1; }
  Index variable(size_t v) const {
    Index index{0, std::vector<int64_t>(num_variables(), 0)};
    index.factors[v] = 1;
    return index;
  }
  Index fixed(int64_t value) const { return {value, std::vector<int64_t>(num_variables(), 0)}; }
  std::vector<LoopStatement>& statements() { return to_.nests[now_].statements; }

  void touch(const std::string& name, DType dtype, size_t rank, bool written) {
    if (dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2) throw NoLoops("FP8 has no type in candidates");
    ArrayUse& access = to_.arrays[name];
    if (access.written || (written && access.rank > 0)) throw NoLoops("it is updated in place");
    access = {dtype, rank, written};
  }

  // The element of an array: strides in all dimensions but the last, which is dense.
  static std::string address(const std::string& name, const Extents& shape, const std::vector<Index>& at) {
    std::string text;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1 || at[d].is_zero()) continue;
      std::string index = index_text(at[d]);
      if (!text.empty()) text += " + ";
      if (d + 1 == shape.size()) {
        text += index;
      } else {
        if (index.find(' ') != index.npos) index = "(" + index + ")";
        text += fmt::format("{} * {}_s{}", index, name, d);
      }
    }
    return text.empty() ? "0" : text;
  }

  Code emit(const Expr& e, const std::vector<Index>& at) {
    const Head& head = e.head();
    switch (head.primitive) {
      case Primitive::kConstant: {
        DType as = computed_as(head.dtype);
        return {number_code(head.value, as), as, head.value};
      }
      case Primitive::kIota:
        return {"(" + index_text(at[static_cast<size_t>(head.axis)]) + ")", DType::kI64};
      case Primitive::kInput: {
        touch(head.name, head.dtype, head.shape.size(), false);
        DType as = computed_as(head.dtype);
        std::string load = fmt::format("{}_p[{}]", head.name, address(head.name, head.shape, at));
        return {as == head.dtype ? load : fmt::format("{}({})", c_name(as), load), as, {}, load, head.dtype};
      }
      case Primitive::kView:
        return emit(e.inputs()[0], viewed(head.map, at));
      case Primitive::kReshape:
        return emit(e.inputs()[0], split(e.inputs()[0].shape(), head.shape, at));
      case Primitive::kCast: {
        Code x = emit(e.inputs()[0], at);
        return rounded(x, head.dtype);
      }
      case Primitive::kMap:
        return emit_map(e, at);
      case Primitive::kReduce:
        return emit_reduce(e, at);
      case Primitive::kGather:
        return emit_gather(e, at);
      default:
        throw NoLoops(fmt::format("there are no loops for {}", algebra::head_text(head)));
    }
  }

  static Code rounded(const Code& x, DType to) {
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

  std::vector<Index> viewed(const algebra::IndexMap& map, const std::vector<Index>& at) const {
    std::vector<Index> inner;
    for (size_t d = 0; d < map.start.size(); ++d) {
      Index index = fixed(map.start[d]);
      std::string text;
      for (size_t j = 0; j < at.size(); ++j) {
        int64_t factor = map.factors[d][j];
        if (factor == 0) continue;
        if (!at[j].text.empty()) {
          text += fmt::format(" + {} * ({})", factor, at[j].text);
          index.text_uses_i = index.text_uses_i || at[j].text_uses_i;
          continue;
        }
        index.start += factor * at[j].start;
        for (size_t v = 0; v < index.factors.size(); ++v) index.factors[v] += factor * at[j].factors[v];
      }
      if (!text.empty()) {
        index.text_uses_i = index.text_uses_i || index.factors.back() != 0;
        index.text = index_text({index.start, index.factors}) + text;
      }
      inner.push_back(index);
    }
    return inner;
  }

  // Where in `from` an element of its reshape to `to` is, where dimensions of `from` are only split.
  std::vector<Index> split(const Extents& from, const Extents& to, const std::vector<Index>& at) const {
    std::vector<Index> inner;
    size_t j = 0;
    for (int64_t extent : from) {
      Index index = fixed(0);
      int64_t product = 1;
      while (product != extent) {
        if (j == to.size() || extent % to[j] != 0 || !at[j].text.empty()) throw NoLoops("a reshape joins dimensions");
        product *= to[j];
        index.start = index.start * to[j] + at[j].start;
        for (size_t v = 0; v < index.factors.size(); ++v)
          index.factors[v] = index.factors[v] * to[j] + at[j].factors[v];
        ++j;
      }
      inner.push_back(index);
    }
    return inner;
  }

  static bool any_uses_i(const std::vector<Index>& at) {
    return std::any_of(at.begin(), at.end(), [](const Index& x) { return x.uses_i(); });
  }

  std::string key_of(const Expr& e, const std::vector<Index>& at) const {
    std::string key = fmt::format("{}", fmt::ptr(e.id()));
    for (size_t d = 0; d < at.size(); ++d) key += "," + (e.shape()[d] == 1 ? "0" : index_text(at[d]));
    return key;
  }

  // A variable for a value that does not change with i, or is used by another statement.
  Code named(const std::string& key, const LoopStatement::Kind kind, const Code& value, int64_t count) {
    std::string name = fmt::format("{}{}", kind == LoopStatement::Kind::kFill ? "a" : "v", known_[now_].size());
    bool alone = kind != LoopStatement::Kind::kFold;  // a fold puts an operator before it
    statements().push_back({kind, name, value.dtype, alone ? unwrapped(value.text) : value.text, count});
    Code use{kind == LoopStatement::Kind::kFill ? name + "[i]" : name, value.dtype};
    known_[now_].emplace(key, use);
    return use;
  }

  Code emit_map(const Expr& e, const std::vector<Index>& at) {
    std::string key = key_of(e, at);
    if (auto found = known_[now_].find(key); found != known_[now_].end()) return found->second;
    std::vector<Code> x;
    for (const Expr& input : e.inputs()) x.push_back(emit(input, at));
    Code value = apply(e, x);
    if (!any_uses_i(at)) return named(key, LoopStatement::Kind::kScalar, value, 1);
    // A slow function that several statements need is computed once, where i runs over a whole dimension.
    const int64_t length = e.shape().back();
    bool whole = at.back().text.empty() && at.back().start == 0 && index_text(at.back()) == "i" &&
                 std::none_of(at.begin(), at.end() - 1, [](const Index& a) { return a.uses_i(); });
    if (whole && is_slow(e.head()) && uses_[e.id()] > 1 && length <= kLargestLocalArray)
      return named(key, LoopStatement::Kind::kFill, value, length);
    return value;
  }

  static Code apply(const Expr& e, const std::vector<Code>& x) {
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
        return call(result == DType::kF64 ? "log" : "logf");
      case Function::kSqrt:
        return call(result == DType::kF64 ? "sqrt" : "sqrtf");
      case Function::kSin:
        return call(result == DType::kF64 ? "sin" : "sinf");
      case Function::kCos:
        return call(result == DType::kF64 ? "cos" : "cosf");
      case Function::kTanh:
        return call(result == DType::kF64 ? "tanh" : "tanhf");
      case Function::kErfc:
        return call(result == DType::kF64 ? "erfc" : "erfcf");
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

  Code emit_reduce(const Expr& e, std::vector<Index> at) {
    const Head& head = e.head();
    const Expr& x = e.inputs()[0];
    auto axis = static_cast<size_t>(head.axis);
    const int64_t count = x.shape()[axis];
    DType as = computed_as(e.dtype());
    at[axis] = fixed(0);
    if (!any_uses_i(at)) {
      std::string key = key_of(e, at);
      if (auto found = known_[now_].find(key); found != known_[now_].end()) return found->second;
      at[axis] = variable(num_variables() - 1);
      if (count >= kVaryingExtent) throw NoLoops("a reduction runs over an extent that varies");
      Code value = emit(x, at);
      Code use = named(key, LoopStatement::Kind::kFold, {converted(value, as), as}, count);
      statements().back().fold = head.fold;
      return use;
    }
    // For every i a few terms, written out.
    if (count > kLargestUnrolled || count == 0 || head.fold != Fold::kSum)
      throw NoLoops("a reduction is not along the last dimension");
    std::string sum;
    for (int64_t k = 0; k < count; ++k) {
      at[axis] = fixed(k);
      sum += (k == 0 ? "" : " + ") + converted(emit(x, at), as);
    }
    return {"(" + sum + ")", as};
  }

  Code emit_gather(const Expr& e, const std::vector<Index>& at) {
    const Expr &x = e.inputs()[0], &index = e.inputs()[1];
    if (!x.head().is(Primitive::kInput)) throw NoLoops("rows are gathered from something computed");
    auto axis = static_cast<int64_t>(e.head().axis), behind = axis + index.rank();
    std::vector<Index> within(at.begin() + axis, at.begin() + behind);
    Code row = emit(index, within);
    bool uses_i = any_uses_i(within);
    if (!uses_i) {
      std::string key = "row " + key_of(index, within);
      auto found = known_[now_].find(key);
      row = found != known_[now_].end() ? found->second : named(key, LoopStatement::Kind::kScalar, row, 1);
    }
    std::vector<Index> inner(at.begin(), at.begin() + axis);
    inner.push_back(fixed(0));
    inner.back().text = row.text;
    inner.back().text_uses_i = uses_i;
    inner.insert(inner.end(), at.begin() + behind, at.end());
    const int64_t extent = x.size(static_cast<int>(axis));
    std::string bound =
        extent >= kVaryingExtent ? fmt::format("{}.size({})", x.head().name, axis) : fmt::to_string(extent);
    Code value = emit(x, inner);
    std::string inside = fmt::format("{0} >= 0 && {0} < {1}", row.text, bound);
    return {fmt::format("({} ? {} : {})", inside, value.text, number_code(0, value.dtype)),
            value.dtype,
            {},
            fmt::format("{} ? {} : {}(0)", inside, value.element, element_name(value.element_dtype)),
            value.element_dtype};
  }

  LoopProgram& to_;
  std::map<const ExprNode*, int> uses_;
  std::vector<std::map<std::string, Code>> known_;  // by nest: values that have a name
  size_t now_ = 0;                                  // the nest
};

}  // namespace

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

LoopProgram lower_to_loops(const std::vector<algebra::NamedExpr>& results) {
  LoopProgram program;
  try {
    Lowering(program).run(results);
  } catch (const NoLoops& why) {
    program = {};
    program.refusal = why.what();
  }
  return program;
}

}  // namespace fk
