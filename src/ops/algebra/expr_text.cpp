#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <string_view>

#include "ops/algebra/expr.h"

namespace fk::algebra {
namespace {

constexpr std::string_view kFunctionNames[] = {
    "+",     "-",   "*",   "/",    "max", "min", "floor_divide", "modulo", "-",
    "abs",   "exp", "log", "sqrt", "sin", "cos", "tanh",         "erfc",   "floor",
    "round", "<",   "==",  "and",  "or",  "not", "is_nan",       "select"};
constexpr std::string_view kFoldNames[] = {"sum", "max", "min", "any"};

std::string_view name_of(Function f) { return kFunctionNames[static_cast<size_t>(f)]; }

bool is_infix(Function f) {
  return f <= Function::kDivide || f == Function::kLess || f == Function::kEqual || f == Function::kAnd ||
         f == Function::kOr;
}

// "[i, 0, 2 * j + 1]"
std::string index_text(const IndexMap& map) {
  constexpr std::string_view kNames = "ijklmnopqrst";
  std::string text;
  for (size_t d = 0; d < map.start.size(); ++d) {
    std::string one;
    for (size_t j = 0; j < map.factors[d].size(); ++j) {
      int64_t factor = map.factors[d][j];
      if (factor == 0) continue;
      std::string_view sign = factor < 0 ? (one.empty() ? "-" : " - ") : (one.empty() ? "" : " + ");
      one += sign;
      if (std::abs(factor) != 1) one += fmt::format("{} * ", std::abs(factor));
      one += kNames[j];
    }
    if (one.empty())
      one = fmt::to_string(map.start[d]);
    else if (map.start[d] != 0)
      one += fmt::format(" {} {}", map.start[d] < 0 ? '-' : '+', std::abs(map.start[d]));
    text += (d == 0 ? "" : ", ") + one;
  }
  return "[" + text + "]";
}

using Names = std::map<const ExprNode*, std::string>;

std::string text_of(const Expr& expr, const Names& names);

// `names` are those of expressions that stand on lines of their own.
std::string named_text(const Expr& expr, const Names& names) {
  auto at = names.find(expr.id());
  return at == names.end() ? text_of(expr, names) : at->second;
}

std::string in_parentheses(const Expr& x, const Names& names) {
  const Head& h = x.head();
  bool atom = names.contains(x.id()) || !h.is(Primitive::kMap) || !is_infix(h.function);
  std::string text = named_text(x, names);
  return atom && !h.is(Function::kNegate) ? text : "(" + text + ")";
}

std::string text_of(const Expr& expr, const Names& names) {
  const Head& head = expr.head();
  const std::vector<Expr>& x = expr.inputs();
  auto listed = [&](std::string_view name, std::string_view last = "") {
    std::string text;
    for (const Expr& e : x) text += (text.empty() ? "" : ", ") + named_text(e, names);
    return fmt::format("{}({}{}{})", name, text, last.empty() ? "" : ", ", last);
  };
  switch (head.primitive) {
    case Primitive::kMap:
      if (is_infix(head.function))
        return fmt::format("{} {} {}", in_parentheses(x[0], names), name_of(head.function),
                           in_parentheses(x[1], names));
      if (head.is(Function::kNegate)) return "-" + in_parentheses(x[0], names);
      return listed(name_of(head.function));
    case Primitive::kView:
      // A number repeated is the number.
      if (x[0].head().is(Primitive::kConstant)) return named_text(x[0], names);
      return in_parentheses(x[0], names) + index_text(head.map);
    case Primitive::kReshape:
      return listed("reshape", fmt::format("[{}]", fmt::join(head.shape, ", ")));
    case Primitive::kCast:
      return listed(fmt::format("cast<{}>", dtype_name(head.dtype)));
    case Primitive::kReduce:
      return listed(kFoldNames[static_cast<size_t>(head.fold)], fmt::to_string(head.axis));
    case Primitive::kScan:
      return listed("scan", fmt::to_string(head.axis));
    case Primitive::kGather:
      return listed("gather", fmt::to_string(head.axis));
    case Primitive::kScatter:
      return listed("scatter");
    case Primitive::kIota:
      return fmt::format("iota({})", head.axis);
    case Primitive::kCall:
      return listed(head_text(head));
    default:
      return head_text(head);
  }
}

}  // namespace

std::string number_text(double value) { return fmt::format("{}", value); }

std::string head_text(const Head& head) {
  switch (head.primitive) {
    case Primitive::kInput:
      return head.name;
    case Primitive::kConstant:
      return number_text(head.value);
    case Primitive::kTable:
      return fmt::format("table[{}]", head.table.size());
    case Primitive::kIota:
      return fmt::format("iota {}", head.axis);
    case Primitive::kView:
      return "view " + index_text(head.map);
    case Primitive::kReshape:
      return fmt::format("reshape [{}]", fmt::join(head.shape, ", "));
    case Primitive::kMap:
      return std::string(name_of(head.function));
    case Primitive::kCast:
      return fmt::format("cast {}", dtype_name(head.dtype));
    case Primitive::kReduce:
      return fmt::format("reduce {} {}", kFoldNames[static_cast<size_t>(head.fold)], head.axis);
    case Primitive::kScan:
      return fmt::format("scan {}", head.axis);
    case Primitive::kGather:
      return fmt::format("gather {}", head.axis);
    case Primitive::kScatter:
      return "scatter";
    case Primitive::kCall:
      return fmt::format("{}.{}", head.callee.op, head.callee.output);
  }
  return {};
}

std::string expr_text(const Expr& expr) { return text_of(expr, {}); }

std::string program_text(const std::vector<NamedExpr>& results) {
  std::map<const ExprNode*, int> uses;
  std::vector<Expr> order;  // inputs before what uses them
  auto visit = [&](auto&& self, const Expr& e) -> void {
    if (uses[e.id()]++ > 0) return;
    for (const Expr& x : e.inputs()) self(self, x);
    order.push_back(e);
  };
  for (const NamedExpr& r : results) visit(visit, r.expr);
  Names names;
  std::string text;
  for (const Expr& e : order) {
    bool short_enough = e.inputs().empty() || (e.head().is(Primitive::kView) && e.inputs()[0].inputs().empty());
    if (uses[e.id()] < 2 || short_enough) continue;
    std::string name = fmt::format("t{}", names.size());
    text += fmt::format("{} = {}\n", name, text_of(e, names));
    names.emplace(e.id(), name);
  }
  for (const NamedExpr& r : results) text += fmt::format("{} = {}\n", r.name, named_text(r.expr, names));
  return text;
}

}  // namespace fk::algebra
