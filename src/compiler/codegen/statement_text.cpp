#include "compiler/codegen/statement_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
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
     R"(// e^x = 2^n e^r with |r| <= log(2) / 2, and e^r = 1 + r + r^2 q(r). Results below 2^-125 are 0.
inline float exponential(float x) {
#ifdef __aarch64__
  // One instruction each; a comparison that keeps a NaN takes several.
  const float within = __builtin_fmaxf(__builtin_fminf(x, 89.0f), -87.6f);
#else
  const float within = x > 89.0f ? 89.0f : x < -87.6f ? -87.6f : x;
#endif
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
  const float shifted = within * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
  const float r = within - n * 0.693145752f - n * 1.42860677e-06f;
  float q = 1.381446724e-03f;
  q = q * r + 8.368780836e-03f;
  q = q * r + 4.166839272e-02f;
  q = q * r + 1.666651964e-01f;
  q = q * r + 4.999999404e-01f;
  const float p = r * r * q + r + 1.0f;
  // Half of 2^n: 2^128 itself is no float.
  const float y = p * __builtin_bit_cast(float, (__builtin_bit_cast(uint32_t, shifted) + 126) << 23) * 2.0f;
#ifdef __aarch64__
  return x == x ? y : x;
#else
  return y;  // a NaN makes p one
#endif
}
inline double exponential(double x) { return exp(x); }
)"},
    {"logarithm",
     R"(// x = 2^e m with m from sqrt(1/2) to sqrt(2), and log(m) = 2 atanh(s), an odd series that is short for |s| < 0.18.
inline float logarithm(float x) {
  const int32_t given = __builtin_bit_cast(int32_t, x);
  const bool small = given < 0x00800000;  // subnormal; what is not above zero has no other use for it
  const int32_t bits = __builtin_bit_cast(int32_t, small ? x * 8388608.0f : x);
  const int32_t e = (bits - 0x3f3504f3) >> 23;
  const float m = __builtin_bit_cast(float, bits - (e << 23)), s = (m - 1.0f) / (m + 1.0f), s2 = s * s;
  float p = 1.0f / 9;
  p = p * s2 + 1.0f / 7;
  p = p * s2 + 1.0f / 5;
  p = p * s2 + 1.0f / 3;
  const float n = static_cast<float>(small ? e - 23 : e), of_m = 2.0f * s + 2.0f * s * s2 * p;
  const float y = n * 0.693145752f + (n * 1.42860677e-06f + of_m);
  const float special = x == 0 ? -INFINITY : given < 0 ? NAN : x;
  return static_cast<uint32_t>(given) - 1u < 0x7f7fffffu ? y : special;
}
inline double logarithm(double x) { return log(x); }
)"},
    {"hyperbolic_tangent",
     R"(// Near zero 1 - 2 / (1 + e^2x) cancels, and x - x^3/3 + 2 x^5/15 - 17 x^7/315 is exact to a rounding.
inline float hyperbolic_tangent(float x) {
  const float x2 = x * x, whole = 1.0f - 2.0f / (1.0f + exponential(2.0f * x));
  const float series = x * (1.0f + x2 * (-0.333333333f + x2 * (0.133333333f + x2 * -0.053968254f)));
  // x2 < 0.03: floats that are not negative have the order of their bits.
  return __builtin_bit_cast(int32_t, x2) < 0x3cf5c28f ? series : whole;
}
inline double hyperbolic_tangent(double x) { return tanh(x); }
)"},
    {"error_complement",
     R"(// 1 - erf(x): beyond |x| it is e^(-x^2) p(t) with t = 1 / (1 + 0.35 sqrt(2) |x|), up to where it is 0 in float.
inline float error_complement(float x) {
  const float t = 1.0f / (1.0f + 0.494974747f * __builtin_fabsf(x));
  float p = -5.829185248e-02f;
  p = p * t + 2.879433632e-01f;
  p = p * t + -5.114284158e-01f;
  p = p * t + 3.183482290e-01f;
  p = p * t + -4.621960222e-02f;
  p = p * t + 2.110159844e-01f;
  p = p * t + 2.396657466e-01f;
  p = p * t + 2.797237336e-01f;
  p = p * t + 2.792428136e-01f;
  const float beyond = exponential(-x * x) * (p * t);
  return __builtin_bit_cast(int32_t, x) < 0 ? 2.0f - beyond : beyond;
}
inline double error_complement(double x) { return erfc(x); }
)"},
    {"sine", R"(// Angles are brought to [-pi/4, pi/4] by multiples of pi/2, in double; |x| < 2^30.
inline float turned(double x, int32_t quarters) {
  const double shifted = x * 0.63661977236758134308 + 6755399441055744.0, n = shifted - 6755399441055744.0;
  const float r = static_cast<float>(x - n * 1.57079632679489655800), r2 = r * r;
  const uint32_t quarter = static_cast<uint32_t>(__builtin_bit_cast(int64_t, shifted) + quarters);
  float s = -1.951723534e-04f;
  s = s * r2 + 8.332177997e-03f;
  s = s * r2 + -1.666665524e-01f;
  s = s * r2 * r + r;
  float c = 2.443837911e-05f;
  c = c * r2 + -1.388736651e-03f;
  c = c * r2 + 4.166664556e-02f;
  c = c * r2 * r2 - 0.5f * r2 + 1.0f;
  const float value = (quarter & 1) != 0 ? c : s;
  return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, value) ^ (quarter & 2) << 30);
}
inline double sine(double x) { return turned(x, 0); }
inline double cosine(double x) { return turned(x, 1); }
inline float sine(float x) { return turned(x, 0); }
inline float cosine(float x) { return turned(x, 1); }
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
  // Each uses only those before it.
  for (size_t k = std::size(kFunctions); k-- > 0;) {
    const auto& [name, source] = kFunctions[k];
    auto calls = [&, called = std::string(name) + "("](const std::string& in) { return in.find(called) != in.npos; };
    if (calls(kernels) || calls(text) || (name == "sine" && kernels.find("cosine(") != kernels.npos))
      text = std::string(source) + text;
  }
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
