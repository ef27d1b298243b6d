// Writes scenario files (scenario_file.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "bench/scenarios/scenario_file.h"
#include "core/output_file.h"

namespace fk {
namespace {

// Plain where YAML reads it as the same word, in quotes where not.
std::string word(std::string_view text) {
  bool plain = !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) != 0;
  for (char c : text)
    plain = plain && (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.' || c == '/');
  if (plain && text != "null" && text != "Null" && text != "NULL") return std::string(text);
  std::string quoted = "\"";
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x20)
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else if (c == '"' || c == '\\')
      quoted += fmt::format("\\{}", c);
    else
      quoted += c;
  }
  return quoted + "\"";
}

std::string words(const std::vector<std::string>& list) {
  std::vector<std::string> quoted;
  for (const std::string& text : list) quoted.push_back(word(text));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

std::string fields_yaml(const Fields& fields) {
  std::vector<std::string> parts;
  for (const Field& f : fields) {
    std::string value = std::visit(
        [](const auto& v) -> std::string {
          using V = std::remove_cvref_t<decltype(v)>;
          if constexpr (std::is_same_v<V, Fields>)
            return fields_yaml(v);
          else if constexpr (std::is_same_v<V, std::vector<int64_t>>)
            return fmt::format("[{}]", fmt::join(v, ", "));
          else if constexpr (std::is_same_v<V, std::string>)
            return word(v);
          else
            return fmt::format("{}", v);
        },
        f.value);
    parts.push_back(fmt::format("{}: {}", f.name, value));
  }
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

std::string workload_yaml(const Workload& w) {
  std::vector<std::string> runs;
  for (size_t i = 0; i < w.sequences.size();) {
    size_t end = i;
    while (end < w.sequences.size() && w.sequences[end] == w.sequences[i]) ++end;
    const Sequence& s = w.sequences[i];
    runs.push_back(end - i == 1 ? fmt::format("[{}, {}]", s.query_len, s.context_len)
                                : fmt::format("[{}, {}, {}]", s.query_len, s.context_len, end - i));
    i = end;
  }
  std::string text = fmt::format("{{sequences: [{}], dtype: {}", fmt::join(runs, ", "), dtype_name(w.dtype));
  if (w.optional_inputs) text += ", optional_inputs: true";
  for (auto [name, value] : {std::pair("width", w.width), std::pair("kv_heads", w.kv_heads),
                             std::pair("picks", w.picks), std::pair("blocks", w.blocks)})
    if (value != 0) text += fmt::format(", {}: {}", name, value);
  if (w.page_size != kDefaultPageSize) text += fmt::format(", page_size: {}", w.page_size);
  return text + "}";
}

// "file#tensor" as seen from the folder of the scenario file.
std::string golden_yaml(const std::string& reference, const std::string& path) {
  namespace fs = std::filesystem;
  size_t hash = reference.rfind('#');
  fs::path file = reference.substr(0, hash);
  fs::path relative = fs::absolute(file).lexically_normal().lexically_relative(
      fs::absolute(fs::path(path)).parent_path().lexically_normal());
  bool inside = !relative.empty() && *relative.begin() != "..";
  return word((inside ? relative : file).string() + reference.substr(hash));
}

std::string inputs_yaml(const Scenario& s, const std::string& path) {
  std::string text;
  Inputs inputs = scenario_inputs(s);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    const TensorSpec& spec = inputs[i]->spec;
    text += fmt::format("      {}: {{shape: {}, dtype: {}", s.info().args[i].name, spec.shape.str(),
                        dtype_name(spec.dtype));
    const ArgumentOverride* o = s.override_of(s.info().args[i].name);
    if (o != nullptr && o->generator) text += fmt::format(", generator: {}", word(generator_text(*o->generator)));
    if (o != nullptr && !o->strides.empty()) text += fmt::format(", strides: [{}]", fmt::join(o->strides, ", "));
    if (o != nullptr && !o->golden.empty()) text += fmt::format(", golden: {}", golden_yaml(o->golden, path));
    text += "}\n";
  }
  return text;
}

}  // namespace

std::string scenarios_text(const std::vector<Scenario>& scenarios, const std::string& path) {
  std::string text;
  std::vector<std::string> written;
  // A key may occur only once in a file, so scenarios are grouped by operator.
  for (const Scenario& first : scenarios) {
    if (std::find(written.begin(), written.end(), first.op) != written.end()) continue;
    written.push_back(first.op);
    text += fmt::format("{}:\n", first.op);
    for (const Scenario& s : scenarios) {
      if (s.op != first.op) continue;
      text += fmt::format("  - name: {}\n    models: {}\n    tp: {}\n", word(s.name), words(s.models), s.tp);
      if (!s.also_tp.empty()) text += fmt::format("    also_tp: [{}]\n", fmt::join(s.also_tp, ", "));
      text += fmt::format("    count: {}\n    init: {}\n    workload: {}\n", s.count, fields_yaml(s.init),
                          workload_yaml(s.workload));
      if (!s.block_table.empty()) text += fmt::format("    block_table: {}\n", golden_yaml(s.block_table, path));
      std::string inputs = inputs_yaml(s, path);
      if (!inputs.empty()) text += "    inputs:\n" + inputs;
    }
  }
  return text;
}

void write_scenarios(const std::vector<Scenario>& scenarios, const std::string& path) {
  write_file(path, scenarios_text(scenarios, path));
}

}  // namespace fk
