#include "compiler/codegen/cpp_kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "candidate/field_list.h"
#include "candidate/operators_header.h"
#include "compiler/codegen/loop_nest.h"
#include "compiler/egraph/extract.h"
#include "compiler/egraph/rewrite.h"
#include "ops/algebra/definition.h"

namespace fk {
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
    {"exponential", R"(// e^x = 2^n e^r with |r| <= log(2) / 2; what is left of its series is below a rounding.
inline float exponential(float x) {
  float within = x > 89.0f ? 89.0f : x < -104.0f ? -104.0f : x;
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
  // In two steps: 2^n itself may have no float.
  int32_t whole = x == x ? static_cast<int32_t>(n) : 0, half = whole >> 1;
  float a = __builtin_bit_cast(float, (half + 127) << 23), b = __builtin_bit_cast(float, (whole - half + 127) << 23);
  return x == x ? p * a * b : x;
}
inline double exponential(double x) { return exp(x); }
)"},
};

std::string functions_in(const std::string& kernels) {
  std::string text;
  for (const auto& [name, source] : kFunctions)
    if (kernels.find(std::string(name) + "(") != kernels.npos) text += source;
  return text;
}

std::string dtype_enum(DType dtype) {
  constexpr std::string_view kNames[] = {"kF64", "kF32", "kF16", "kBF16", "kF8E4M3", "kF8E5M2",
                                         "kI8",  "kU8",  "kI32", "kI64",  "kBool"};
  return fmt::format("fk::DType::{}", kNames[static_cast<size_t>(dtype)]);
}

std::string_view fold_function(algebra::Fold fold) { return fold == algebra::Fold::kMax ? "larger" : "smaller"; }

std::string folded(algebra::Fold fold, const std::string& so_far, const std::string& value) {
  if (fold == algebra::Fold::kSum) return fmt::format("{} + {}", so_far, value);
  if (fold == algebra::Fold::kAny) return fmt::format("{} | {}", so_far, value);
  return fmt::format("{}({}, {})", fold_function(fold), so_far, value);
}

std::string fold_start(const LoopStatement& s) {
  if (s.fold == algebra::Fold::kSum || s.fold == algebra::Fold::kAny) return "0";
  bool max = s.fold == algebra::Fold::kMax;
  if (s.dtype == DType::kI64) return max ? "INT64_MIN" : "INT64_MAX";
  return max ? "-INFINITY" : "INFINITY";
}

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

std::string statement_text(const LoopStatement& s, const std::string& indent) {
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
      // A float is assigned as it is: see bf16 in candidate.h.
      bool as_it_is = dtype_is_float(s.dtype);
      std::string value = as_it_is ? s.value : fmt::format("static_cast<{}>({})", element_name(s.dtype), s.value);
      return fmt::format("{}{}_p[{}] = {};\n",
                         s.count == 1 ? indent + "[[maybe_unused]] constexpr int64_t i = 0;\n" + indent : loop, s.name,
                         s.index, value);
    }
  }
  return {};
}

std::string nest_text(const LoopNest& nest) {
  int64_t items = 1, elements = 0;  // of one item: what its loops touch
  for (size_t d = 1; d < nest.leads.size(); ++d) items *= nest.leads[d];
  for (const LoopStatement& s : nest.statements) elements += s.count;
  constexpr int64_t kWorthAThread = 16384;
  const int64_t grain = std::max<int64_t>(1, kWorthAThread / std::max<int64_t>(elements, 1));
  const std::string rows = nest.leads[0] >= kVaryingExtent ? nest.rows_of + ".size(0)" : fmt::to_string(nest.leads[0]);
  std::string text = fmt::format("  ctx.parallel_for({}{}, {}, [&](int64_t begin, int64_t end) {{\n", rows,
                                 items == 1 ? "" : fmt::format(" * {}", items), grain);
  text += "    for (int64_t item = begin; item < end; ++item) {\n";
  for (size_t d = 0; d < nest.leads.size(); ++d) {
    std::string index = items == 1 ? "item" : fmt::format("item / {}", items);
    if (d > 0) index = fmt::format("({}) % {}", index, nest.leads[d]);
    text += fmt::format("      [[maybe_unused]] const int64_t l{} = {};\n", d, index);
    if (d + 1 < nest.leads.size()) items /= nest.leads[d + 1];
  }
  for (const LoopStatement& s : nest.statements) {
    bool block = s.kind == LoopStatement::Kind::kStore && s.count == 1;
    text += block ? "      {\n" + statement_text(s, "        ") + "      }\n" : statement_text(s, "      ");
  }
  return text + "    }\n  });\n";
}

std::string kernel_text(size_t number, const LoopProgram& loops, const std::string& comment) {
  std::string parameters;
  for (const auto& [name, access] : loops.arrays) parameters += fmt::format(", const fk::View& {}", name);
  std::string text = comment + fmt::format("void kernel_{}(fk::Context& ctx{}) {{\n", number, parameters), loops_text;
  for (const LoopNest& nest : loops.nests) loops_text += nest_text(nest);
  for (const auto& [name, access] : loops.arrays) {
    text += fmt::format("  {0}{1}* __restrict {2}_p = {2}.ptr<{1}>();\n", access.written ? "" : "const ",
                        element_name(access.dtype), name);
    for (size_t d = 0; d < access.rank; ++d)
      if (loops_text.find(fmt::format("* {}_s{}", name, d)) != loops_text.npos)
        text += fmt::format("  const int64_t {0}_s{1} = {0}.stride({1});\n", name, d);
  }
  return text + loops_text + "}\n";
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

std::string shape_text(const TensorSpec& spec) {
  std::string extents;
  for (int64_t e : spec.shape.extents())
    extents += fmt::format("{}{}", extents.empty() ? "" : ", ", e >= kVaryingExtent ? "T" : fmt::to_string(e));
  return fmt::format("{} [{}]", dtype_name(spec.dtype), extents);
}

// Whether the call is the one that a kernel was written for. Empty: a constructor argument cannot be compared.
std::string condition(const OperatorInfo& op, const CallShape& call) {
  std::vector<std::string> all;
  for (const Field& f : call.init) {
    std::string member = "init." + f.name;
    if (const auto* flag = std::get_if<bool>(&f.value))
      all.push_back(*flag ? member : "!" + member);
    else if (const auto* integer = std::get_if<int64_t>(&f.value))
      all.push_back(fmt::format("{} == {}", member, *integer));
    else if (const auto* real = std::get_if<double>(&f.value))
      all.push_back(fmt::format("{} == {}", member, algebra::number_text(*real)));
    else if (const auto* words = std::get_if<std::string>(&f.value)) {
      std::optional<DType> dtype = field_dtype(f.value);
      all.push_back(dtype ? fmt::format("{} == {}", member, dtype_enum(*dtype))
                          : fmt::format("fk::detail::same_text({}, \"{}\")", member, *words));
    } else {
      return {};
    }
  }
  for (size_t i = 0; i < call.given.size(); ++i) {
    if (op.args[i].role == Role::kOutput) break;
    const OptView& arg = call.given[i];
    all.push_back(fmt::format("{}has[{}]", arg ? "" : "!", i));
    if (!arg) continue;
    all.push_back(fmt::format("a[{}].dtype() == {}", i, dtype_enum(arg->dtype())));
    all.push_back(fmt::format("a[{}].rank() == {}", i, arg->rank()));
    for (int d = 0; d < arg->rank(); ++d)
      if (arg->size(d) < kVaryingExtent) all.push_back(fmt::format("a[{}].size({}) == {}", i, d, arg->size(d)));
  }
  return fmt::format("{}", fmt::join(all, " &&\n      "));
}

// The cheapest expressions equal to a definition's.
std::vector<algebra::NamedExpr> cheapest(const std::vector<algebra::NamedExpr>& results) {
  EGraph graph;
  std::vector<Expr> exprs;
  for (const algebra::NamedExpr& r : results) exprs.push_back(r.expr);
  std::vector<ClassId> roots = graph.add_all(exprs);
  saturate(graph, algebra_rules(), {.iterations = 8, .nodes = 4000});
  exprs = extract(graph, roots, element_cost).exprs;
  std::vector<algebra::NamedExpr> best = results;
  for (size_t i = 0; i < best.size(); ++i) best[i].expr = exprs[i];
  return best;
}

}  // namespace

GeneratedCandidate generate_candidate(const OperatorInfo& op, const std::vector<CallShape>& calls) {
  GeneratedCandidate candidate;
  std::string kernels, choice, dispatch;
  for (const CallShape& call : calls) {
    auto refuse = [&](const std::string& why) { candidate.refusals.push_back(why); };
    Definition definition = define(op.name, call.init, call.given);
    if (!definition.opaque().empty()) {
      refuse(definition.opaque());
      continue;
    }
    std::vector<algebra::NamedExpr> results = cheapest(definition.results());
    LoopProgram loops = lower_to_loops(results);
    std::string which = condition(op, call);
    if (!loops.refusal.empty() || which.empty()) {
      refuse(loops.refusal.empty() ? "its constructor arguments cannot be compared" : loops.refusal);
      continue;
    }
    refuse("");
    const size_t number = candidate.covered++;
    std::string comment = "// ";
    for (size_t i = 0; i < call.given.size(); ++i)
      if (call.given[i])
        comment +=
            fmt::format("{}{} {}", comment.size() > 3 ? ", " : "", op.args[i].name, shape_text(call.given[i]->spec()));
    comment += call.init.empty() ? "\n" : fmt::format("; {}\n", fields_text(call.init));
    kernels += "\n" + kernel_text(number, loops, comment + in_comment(algebra::program_text(results)));
    choice += fmt::format("  if ({})\n    return {};\n", which, number);
    std::string passed;
    for (const auto& [name, access] : loops.arrays) {
      auto arg = std::find_if(op.args.begin(), op.args.end(), [&](const ArgSpec& a) { return a.name == name; });
      passed += arg == op.args.end() ? fmt::format(", weight(\"{}\")", name)
                                     : fmt::format(", {}{}", arg->optional ? "*" : "", name);
    }
    dispatch += fmt::format("      case {}:\n        return kernel_{}(ctx{});\n", number, number, passed);
  }
  if (candidate.covered == 0) return candidate;
  std::string views, present;
  for (const ArgSpec& arg : op.args) {
    std::string view = arg.optional ? fmt::format("{0} ? *{0} : fk::View()", arg.name) : std::string(arg.name);
    views += (views.empty() ? "" : ", ") + view;
    present += fmt::format("{}{}", present.empty() ? "" : ", ",
                           arg.optional ? fmt::format("static_cast<bool>({})", arg.name) : "true");
  }
  candidate.source = fmt::format(
      "// {name}, written by fastkernels from the definition of the operator: a kernel for each shape it is called "
      "with.\n"
      "#include <fastkernels/candidate.h>\n#include <math.h>\n\nnamespace {{\n\n{functions}{kernels}\n"
      "// The kernel for such a call; -1: there is none.\n"
      "[[maybe_unused]] int choose(const fk::{cls}::Init& init, const fk::View* a, const bool* has) {{\n"
      "  static_cast<void>(init);\n{choice}  return -1;\n}}\n\n}}  // namespace\n\n"
      "class {cls} : public fk::{cls} {{\n public:\n  using fk::{cls}::{cls};\n\n"
      "  const char* refuse(fk::Args args) const override {{\n    fk::View a[{count}];\n    bool has[{count}];\n"
      "    for (int k = 0; k < {count}; ++k) {{\n      has[k] = args.has(k);\n      if (has[k]) a[k] = args[k];\n    "
      "}}\n"
      "    return choose(init_, a, has) < 0 ? \"it was written for other shapes\" : nullptr;\n  }}\n\n"
      "  {signature} override {{\n    const fk::View a[] = {{{views}}};\n    const bool has[] = {{{present}}};\n"
      "    switch (choose(init_, a, has)) {{\n{dispatch}      default:\n"
      "        throw fk::Error(\"it was written for other shapes\");\n    }}\n  }}\n}};\n\nFK_CANDIDATE({cls})\n",
      fmt::arg("name", op.name), fmt::arg("functions", functions_in(kernels)), fmt::arg("kernels", kernels),
      fmt::arg("cls", op.class_name), fmt::arg("choice", choice), fmt::arg("count", op.args.size()),
      fmt::arg("signature", forward_signature(op)), fmt::arg("views", views), fmt::arg("present", present),
      fmt::arg("dispatch", dispatch));
  return candidate;
}

}  // namespace fk
