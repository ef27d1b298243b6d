#include "tests/arch/contracts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <regex>
#include <set>

#include "tests/arch/tree.h"

namespace fk::arch {
namespace {

bool finite_and_not_negative(std::initializer_list<double> values) {
  return std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x) && x >= 0; });
}

void check_arguments(const OperatorInfo& op, std::vector<std::string>& missing) {
  if (op.args.empty()) missing.emplace_back("lists no arguments of forward");
  std::set<std::string_view> names;
  bool written = false;
  for (const ArgSpec& arg : op.args) {
    if (arg.name.empty() || !names.insert(arg.name).second)
      missing.push_back(fmt::format("has two arguments '{}'", arg.name));
    written |= arg.role != Role::kInput;
  }
  if (!written) missing.emplace_back("writes nothing: no output and no state");
  for (size_t i = count_given(op.args); i < op.args.size(); ++i)
    if (op.args[i].role != Role::kOutput)
      missing.push_back(fmt::format("has the argument '{}' behind an output", op.args[i].name));
}

void check_case(const OperatorInfo& op, const OperatorInfo::ErasedCase& c, std::vector<std::string>& missing) {
  auto report = [&](std::string what) { missing.push_back(fmt::format("case '{}': {}", c.label, what)); };
  Inputs inputs = op.inputs(c.init, c.workload);
  size_t given = count_given(op.args);
  if (inputs.size() != given) return report(fmt::format("makes {} inputs for {} arguments", inputs.size(), given));
  bool empty = false;
  for (size_t i = 0; i < given; ++i) {
    if (!inputs[i] && !op.args[i].optional) report(fmt::format("makes no '{}', which is required", op.args[i].name));
    if (inputs[i]) empty |= inputs[i]->spec.shape.numel() == 0;
  }
  Cost cost = op.cost(c.init, c.workload);
  if (!finite_and_not_negative({cost.read_bytes, cost.written_bytes, cost.matrix_flops, cost.vector_flops}))
    report("has a cost below zero or not finite");
  else if (!empty && cost.bytes() == 0)
    report("moves no bytes");
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    Tolerance tolerance = op.tolerance(c.init, dtype);
    if (!finite_and_not_negative({tolerance.relative, tolerance.of_scale}) || tolerance.relative >= 1 ||
        tolerance.of_scale >= 1)
      report(fmt::format("has a tolerance for {} outside 0 .. 1", dtype_name(dtype)));
  }
}

}  // namespace

std::vector<std::string> check_contract(const OperatorInfo& op) {
  std::vector<std::string> missing;
  if (op.class_name.empty()) missing.emplace_back("has implementations but no contract");
  if (op.level < 1 || op.level > 4) missing.push_back(fmt::format("has level {}", op.level));
  check_arguments(op, missing);

  auto last_resorts = std::count_if(op.implementations.begin(), op.implementations.end(),
                                    [](const ImplementationInfo& i) { return i.is_oracle || i.any_device; });
  if (last_resorts != 1) missing.push_back(fmt::format("has {} oracles or compositions instead of one", last_resorts));
  if (op.level == 1 && (op.implementations.empty() || !op.implementations.back().is_oracle))
    missing.emplace_back("has no oracle at the end of its list");
  std::set<std::string_view> names;
  for (const ImplementationInfo& i : op.implementations) {
    if (!names.insert(i.name).second) missing.push_back(fmt::format("has two implementations '{}'", i.name));
    if (i.create == nullptr) missing.push_back(fmt::format("cannot create its implementation '{}'", i.name));
  }

  if (op.cost == nullptr) missing.emplace_back("has no cost");
  if (op.inputs == nullptr) missing.emplace_back("has no inputs");
  if (op.tolerance == nullptr) missing.emplace_back("has no tolerance");
  if (op.default_init == nullptr || op.build == nullptr) missing.emplace_back("cannot be built");
  if (op.cases == nullptr || op.cases().empty()) missing.emplace_back("has no cases");
  if (!missing.empty()) return missing;

  std::set<std::string> labels;
  for (const OperatorInfo::ErasedCase& c : op.cases()) {
    if (c.label.empty() || !labels.insert(c.label).second)
      missing.push_back(fmt::format("has two cases '{}'", c.label));
    check_case(op, c, missing);
  }
  return missing;
}

std::vector<std::string> check_place(const OperatorInfo& op, const std::filesystem::path& root) {
  static const std::regex registration(R"(^\s*FK_(OPERATOR|COMPOSITION)\()");
  std::vector<std::string> missing;
  std::string stem = fmt::format("src/ops/l{}/{}", op.level, op.name);
  for (const char* extension : {".h", ".cpp"})
    if (!std::filesystem::exists(root / (stem + extension)))
      missing.push_back(fmt::format("has no {}{}", stem, extension));
  std::vector<std::string> lines = read_lines(root / (stem + ".cpp"));
  auto registered = std::count_if(lines.begin(), lines.end(),
                                  [&](const std::string& line) { return std::regex_search(line, registration); });
  if (missing.empty() && registered != 1)
    missing.push_back(fmt::format("{}.cpp registers {} operators instead of one", stem, registered));
  return missing;
}

}  // namespace fk::arch
