#include "models/checkpoint_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"
#include "models/family.h"

namespace fk {
namespace {

// "experts.3.down_proj" from "experts.{e}.down_proj"; other names as they are.
std::string of_expert(std::string_view part, size_t expert) {
  constexpr std::string_view kExpert = "{e}";
  std::string name(part);
  if (size_t at = name.find(kExpert); at != std::string::npos) name.replace(at, kExpert.size(), std::to_string(expert));
  return name;
}

// Where the checkpoint has another name, or two tensors, for the whole parameter. False where it does not.
bool rename_whole(ParamSpec& p, const PackedModule& packed) {
  bool two = packed.stored == Stored::kBlocksAndScales;
  if (packed.parts.size() != (two ? 2u : 1u) || packed.parts[0].find("{e}") != std::string_view::npos) return false;
  size_t at = p.name.find(packed.module);
  if (at == std::string::npos || (packed.stored != Stored::kRows && two == p.format.empty())) return false;
  p.part_names.clear();
  for (std::string_view part : packed.parts)
    p.part_names.push_back(std::string(p.name).replace(at, packed.module.size(), part));
  p.part_rows.assign(1, p.spec.shape.numel() / p.spec.shape[-1]);
  p.stored = packed.stored == Stored::kRows ? Stored::kWhole : packed.stored;
  return true;
}

// Where the checkpoint has equal parts of a parameter that is whole here. False where it does not.
bool divide_whole(ParamSpec& p, const PackedModule& packed) {
  size_t at = p.name.find(packed.module);
  if (packed.stored != Stored::kEqualParts || at == std::string::npos) return false;
  for (std::string_view part : packed.parts)
    p.part_names.push_back(std::string(p.name).replace(at, packed.module.size(), part));
  p.stored = Stored::kEqualParts;
  return true;
}

// Of a parameter that holds one of the stacked matrices: "...qkv_proj.weight_1" is "...k_proj.weight".
std::string name_of_part(const ParamSpec& p, const Family& family) {
  for (const PackedModule& packed : family.packed) {
    size_t at = p.name.find(packed.module);
    if (at == std::string::npos) continue;
    FK_CHECK(static_cast<size_t>(p.part) < packed.parts.size(), "a stacked weight has more parts than its family says");
    std::string name = p.name.substr(0, p.name.rfind('_'));
    return name.replace(at, packed.module.size(), packed.parts[static_cast<size_t>(p.part)]);
  }
  return p.name;
}

// `names` are sorted.
bool any_begins(const std::vector<std::string>& names, const std::string& beginning) {
  auto at = std::lower_bound(names.begin(), names.end(), beginning);
  return at != names.end() && at->starts_with(beginning);
}

// Modules are looked for, not tensors: a quantised matrix has other tensors than the parameter.
void use_second_names(std::vector<ParamSpec>& params, const Family& family, const Checkpoint& checkpoint) {
  if (family.second_names.empty()) return;
  const std::vector<std::string> names = checkpoint.names();
  auto has_module_of = [&](const std::string& name) { return any_begins(names, name.substr(0, name.rfind('.') + 1)); };
  auto second_name = [&](std::string name) {
    for (const SecondName& other : family.second_names) {
      size_t at = name.find(other.first);
      if (at == std::string::npos || has_module_of(name)) continue;
      std::string second = std::string(name).replace(at, other.first.size(), other.second);
      if (has_module_of(second)) return second;
    }
    return name;
  };
  for (ParamSpec& param : params) {
    if (param.part_names.empty()) {
      std::string name = second_name(param.name);
      if (name == param.name) continue;
      param.part_names = {param.name};
      param.part_rows = {param.spec.shape[0]};
    }
    for (std::string& name : param.part_names) name = second_name(name);
  }
}

}  // namespace

std::vector<ParamSpec> checkpoint_params(const Node& model, const ModelConfig& config) {
  std::vector<ParamSpec> params;
  for (ParamSpec p : collect_params(model)) {
    if (config.facts.tied_head && p.name == kHeadWeight) continue;
    if (p.part >= 0) p.part_names = {name_of_part(p, *config.family)};
    if (p.part >= 0) p.part_rows = {p.spec.shape[0]};
    for (const PackedModule& packed : config.family->packed) {
      if (p.part >= 0 || rename_whole(p, packed) || divide_whole(p, packed)) break;
      size_t at = p.part_rows.empty() ? std::string::npos : p.name.find(packed.module);
      if (at == std::string::npos) continue;
      const size_t experts = p.spec.shape.rank() == 3 ? static_cast<size_t>(p.spec.shape[0]) : 1;
      FK_CHECK(packed.parts.size() * experts == p.part_rows.size(),
               "a stacked weight has other parts than its family says");
      for (size_t e = 0; e < experts; ++e)
        for (std::string_view part : packed.parts)
          p.part_names.push_back(std::string(p.name).replace(at, packed.module.size(), of_expert(part, e)));
    }
    params.push_back(std::move(p));
  }
  return params;
}

void find_part(std::vector<ParamSpec>& params, const ModelConfig& config, const Checkpoint& checkpoint) {
  use_second_names(params, *config.family, checkpoint);
  std::string prefix(config.family->part_prefix);
  // "model.language_model." takes the place of "model."; an output head has no prefix then.
  constexpr std::string_view kModel = "model.";
  bool replaces = prefix.starts_with(kModel);
  auto in_larger = [&](const std::string& name) {
    if (!replaces) return prefix + name;
    return name.starts_with(kModel) ? prefix + name.substr(kModel.size()) : name;
  };
  if (prefix.empty() || params.empty() || checkpoint.find(params.front().name) ||
      !checkpoint.find(in_larger(params.front().name)))
    return;
  for (ParamSpec& param : params) {
    if (param.part_names.empty()) {
      param.part_names = {param.name};
      param.part_rows = {param.spec.shape[0]};
    }
    for (std::string& name : param.part_names) name = in_larger(name);
  }
}

void find_experts(std::vector<ParamSpec>& params, const Checkpoint& checkpoint) {
  constexpr std::string_view kExperts = "experts.";
  const std::vector<std::string> names = checkpoint.names();
  auto has_beginning = [&](const std::string& beginning) { return any_begins(names, beginning); };
  for (ParamSpec& param : params) {
    if (param.spec.shape.rank() != 3 || param.part_names.size() != 1 || !param.format.empty() || param.fill) continue;
    const std::string whole = param.part_names[0];
    const size_t at = whole.rfind(kExperts);
    // Experts with a bias (gpt-oss) have rows of gate and up in turn, not one half each.
    if (at == std::string::npos || checkpoint.find(whole + "_bias")) continue;
    const std::string_view matrix = std::string_view(whole).substr(at + kExperts.size());
    std::vector<std::string_view> parts{matrix};
    if (matrix == "gate_up_proj") parts = {"gate_proj", "up_proj"};
    for (std::string_view block : {"", "moe."}) {
      const std::string experts = whole.substr(0, at) + std::string(block) + std::string(kExperts);
      if (!has_beginning(fmt::format("{}0.{}.", experts, parts[0]))) continue;
      const int64_t count = param.spec.shape[0], rows = param.spec.shape[1];
      param.part_names.clear();
      param.part_rows.clear();
      for (int64_t e = 0; e < count; ++e)
        for (std::string_view part : parts) {
          param.part_names.push_back(fmt::format("{}{}.{}.weight", experts, e, part));
          param.part_rows.push_back(rows / static_cast<int64_t>(parts.size()));
        }
      param.stored = Stored::kRows;
      break;
    }
  }
}

std::string loaded_name(const std::string& param, const ModelConfig& config) {
  return config.facts.tied_head && param == kHeadWeight ? std::string(kEmbeddingWeight) : param;
}

}  // namespace fk
