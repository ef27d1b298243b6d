#include "compiler/codegen/cpp_kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "candidate/field_list.h"
#include "candidate/operators_header.h"
#include "compiler/codegen/c_text.h"
#include "compiler/codegen/loop_nest.h"
#include "compiler/codegen/statement_text.h"
#include "ops/algebra/definition.h"

namespace fk {
namespace {

std::string dtype_enum(DType dtype) {
  constexpr std::string_view kNames[] = {"kF64", "kF32", "kF16", "kBF16", "kF8E4M3", "kF8E5M2",
                                         "kI8",  "kU8",  "kI32", "kI64",  "kBool"};
  return fmt::format("fk::DType::{}", kNames[static_cast<size_t>(dtype)]);
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
    std::string array = s.name + "_p";
    text +=
        block ? "      {\n" + statement_text(s, array, "        ") + "      }\n" : statement_text(s, array, "      ");
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
  return text + tables_text(loops) + loops_text + "}\n";
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
