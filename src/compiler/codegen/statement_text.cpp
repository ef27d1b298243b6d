#include "compiler/codegen/statement_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "compiler/codegen/c_text.h"
#include "compiler/egraph/extract.h"
#include "compiler/egraph/rewrite.h"

namespace fk {

std::string folded(algebra::Fold fold, const std::string& so_far, const std::string& value) {
  if (fold == algebra::Fold::kSum) return fmt::format("{} + {}", so_far, value);
  if (fold == algebra::Fold::kAny) return fmt::format("{} | {}", so_far, value);
  return fmt::format("{}({}, {})", fold == algebra::Fold::kMax ? "larger" : "smaller", so_far, value);
}

std::string fold_start(const LoopStatement& s) {
  if (s.fold == algebra::Fold::kSum || s.fold == algebra::Fold::kAny) return "0";
  bool max = s.fold == algebra::Fold::kMax;
  if (s.dtype == DType::kI64) return max ? "INT64_MIN" : "INT64_MAX";
  return max ? "-INFINITY" : "INFINITY";
}

namespace {

// Functions of elements that compilers vectorise, by name. A NaN stays one.
constexpr std::pair<std::string_view, std::string_view> kFunctions[] = {
    {"larger", R"(template <class T>
inline T larger(T a, T b) {
  return a > b || a != a ? a : b;
}
)"},
    {"smaller", R"(template <class T>
inline T smaller(T a, T b) {
  return a < b || a != a ? a : b;
}
)"},
    {"magnitude", R"(template <class T>
inline T magnitude(T a) {
  return a < 0 ? -a : a;
}
)"},
    {"exponential",
     R"(// e^x = 2^n e^r with |r| <= log(2) / 2; what is left of its series is below a rounding. Results below 2^-125 are 0.
inline float exponential(float x) {
  float within = x > 89.0f ? 89.0f : x < -87.6f ? -87.6f : x;
  float n = __builtin_rintf(within * 1.44269504f);
  float r = within - n * 0.693145752f - n * 1.42860677e-06f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // Half of 2^n: 2^128 itself is no float. A NaN makes p one.
  return p * __builtin_bit_cast(float, (static_cast<int32_t>(n) + 126) << 23) * 2.0f;
}
inline double exponential(double x) { return exp(x); }
)"},
    {"sine", R"(// Angles are brought to [-pi/4, pi/4] by multiples of pi/2, in two parts; |x| < 2^30.
inline double sine_within(double r) {
  double r2 = r * r, p = 1.58962301576546568060e-10;
  p = p * r2 - 2.50507477628578072866e-8;
  p = p * r2 + 2.75573136213857245213e-6;
  p = p * r2 - 1.98412698295895385996e-4;
  p = p * r2 + 8.33333333332211858878e-3;
  p = p * r2 - 1.66666666666666307295e-1;
  return r + r * r2 * p;
}
inline double cosine_within(double r) {
  double r2 = r * r, p = -1.13585365213876817300e-11;
  p = p * r2 + 2.08757008419747316778e-9;
  p = p * r2 - 2.75573141792967388112e-7;
  p = p * r2 + 2.48015872888517045348e-5;
  p = p * r2 - 1.38888888888730564116e-3;
  p = p * r2 + 4.16666666666665929218e-2;
  return 1.0 - 0.5 * r2 + r2 * r2 * p;
}
inline double turned(double x, int64_t quarters) {
  double shifted = x * 0.63661977236758134308 + 6755399441055744.0, n = shifted - 6755399441055744.0;
  double r = x - n * 1.57079632679489655800 - n * 6.12323399573676603587e-17;
  int64_t quarter = __builtin_bit_cast(int64_t, shifted) + quarters;
  double s = sine_within(r), c = cosine_within(r), value = (quarter & 1) != 0 ? c : s;
  double found = (quarter & 2) != 0 ? -value : value;
  return found;
}
inline double sine(double x) { return turned(x, 0); }
inline double cosine(double x) { return turned(x, 1); }
inline float sine(float x) { return float(turned(double(x), 0)); }
inline float cosine(float x) { return float(turned(double(x), 1)); }
)"},
};

// Independent partial results, so that the loop is vectorised without changing what it means; always in the same order.
std::string fold_text(const LoopStatement& s, const std::string& indent) {
  constexpr int kLanes = 32;
  std::string_view type = element_name(s.dtype);
  std::string start = fold_start(s), text;
  auto line = [&](const std::string& t) { text += indent + t + "\n"; };
  if (s.count < 2 * kLanes) {
    line(fmt::format("{} {} = {};", type, s.name, start));
    line(fmt::format("for (int64_t i = 0; i < {}; ++i) {} = {};", s.count, s.name, folded(s.fold, s.name, s.value)));
    return text;
  }
  line(fmt::format("{} {}_of[{}];", type, s.name, kLanes));
  line(fmt::format("for (int k = 0; k < {}; ++k) {}_of[k] = {};", kLanes, s.name, start));
  std::string lane = s.name + "_of[k]";
  line(fmt::format("for (int64_t first = 0; first < {}; first += {})", s.count / kLanes * kLanes, kLanes));
  line(fmt::format("  for (int k = 0; k < {}; ++k) {{", kLanes));
  line("    const int64_t i = first + k;");
  line(fmt::format("    {} = {};", lane, folded(s.fold, lane, s.value)));
  line("  }");
  if (s.count % kLanes != 0) {
    line(fmt::format("for (int64_t i = {}, k = 0; i < {}; ++i, ++k) {} = {};", s.count / kLanes * kLanes, s.count, lane,
                     folded(s.fold, lane, s.value)));
  }
  line(fmt::format("for (int n = {}; n > 0; n /= 2)", kLanes / 2));
  line(fmt::format("  for (int k = 0; k < n; ++k) {} = {};", lane,
                   folded(s.fold, lane, fmt::format("{}_of[k + n]", s.name))));
  line(fmt::format("const {} {} = {}_of[0];", type, s.name, s.name));
  return text;
}

}  // namespace

std::string functions_in(const std::string& kernels) {
  std::string text;
  for (const auto& [name, source] : kFunctions)
    if (kernels.find(std::string(name) + "(") != kernels.npos ||
        (name == "sine" && kernels.find("cosine(") != kernels.npos))
      text += source;
  return text;
}

std::string functions_version() {
  std::string text;
  for (const auto& [name, source] : kFunctions) text += source;
  return text;
}

std::string array_of(const LoopStatement& s, const LoopProgram& loops) {
  return s.kind == LoopStatement::Kind::kFill || loops.locals.count(s.name) > 0 ? s.name : s.name + "_p";
}

std::string store_text(const LoopStatement& s, const std::string& array) {
  std::string element = fmt::format("{}[{}]", array, s.index);
  if (s.moved && s.dtype == DType::kBF16) return fmt::format("{}.bits = {};", element, s.value);
  // A float is assigned as it is: see bf16 in candidate.h.
  if (dtype_is_float(s.dtype)) return fmt::format("{} = {};", element, s.value);
  return fmt::format("{} = static_cast<{}>({});", element, element_name(s.dtype), s.value);
}

std::string statement_text(const LoopStatement& s, const std::string& array, const std::string& indent) {
  std::string loop = fmt::format("{}for (int64_t i = 0; i < {}; ++i) ", indent, s.count);
  switch (s.kind) {
    case LoopStatement::Kind::kScalar:
      return fmt::format("{}const {} {} = {};\n", indent, element_name(s.dtype), s.name, s.value);
    case LoopStatement::Kind::kFold:
      return fold_text(s, indent);
    case LoopStatement::Kind::kFill:
      return fmt::format("{}{} {}[{}];\n{}{}[i] = {};\n", indent, element_name(s.dtype), s.name, s.count, loop, s.name,
                         s.value);
    case LoopStatement::Kind::kStore: {
      std::string text;
      if (s.count == 1) text += indent + "[[maybe_unused]] constexpr int64_t i = 0;\n";
      if (!s.guard.empty()) text += fmt::format("{}if ({})\n  ", indent, s.guard);
      return text + (s.count == 1 ? indent : loop) + store_text(s, array) + "\n";
    }
  }
  return {};
}

std::string table_text(const std::vector<double>& table) {
  std::string text;
  for (size_t k = 0; k < table.size(); ++k)
    text += fmt::format("{}{}", k == 0 ? "" : k % 8 == 0 ? ",\n      " : ", ", algebra::number_text(table[k]));
  return text;
}

std::string tables_text(const LoopProgram& loops) {
  std::string text;
  for (size_t t = 0; t < loops.tables.size(); ++t)
    text += fmt::format("  static const double table{}[] = {{{}}};\n", t, table_text(loops.tables[t]));
  return text;
}

std::string in_comment(const std::string& text) {
  std::string lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    lines += "//   " + text.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return lines;
}

std::vector<algebra::NamedExpr> cheapest(const std::vector<algebra::NamedExpr>& results,
                                         std::vector<RuleStatistics>* rules) {
  EGraph graph;
  std::vector<algebra::Expr> exprs;
  for (const algebra::NamedExpr& r : results) exprs.push_back(r.expr);
  std::vector<ClassId> roots = graph.add_all(exprs);
  SaturationReport report = saturate(graph, algebra_rules(), {.iterations = 8, .nodes = 4000});
  for (size_t i = 0; rules != nullptr && i < report.rules.size(); ++i) {
    if (rules->size() == i) rules->push_back({.rule = report.rules[i].rule});
    RuleStatistics& sum = (*rules)[i];
    sum.matches += report.rules[i].matches;
    sum.unions += report.rules[i].unions;
    sum.refused += report.rules[i].refused;
    sum.time_ns += report.rules[i].time_ns;
  }
  exprs = extract(graph, roots, element_cost).exprs;
  std::vector<algebra::NamedExpr> best = results;
  for (size_t i = 0; i < best.size(); ++i) best[i].expr = exprs[i];
  return best;
}

}  // namespace fk
