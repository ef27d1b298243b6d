// A config.json as a test changes it: what is read from it, and what a checkpoint of that model holds.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "models/checkpoint_names.h"
#include "models/config.h"
#include "models/family.h"
#include "ops/registry.h"
#include "tests/models/error_text.h"

namespace fk {

// A key with a null value is taken out.
inline ModelConfig changed(const char* base, std::initializer_list<std::pair<const char*, const char*>> changes) {
  Json json = parse_json(base, "the test's config");
  for (auto [key, value] : changes) {
    json.erase(key);
    if (value != nullptr) json[key] = parse_json(value, "the test's value");
  }
  return config_from_json(json, "config.json");
}
inline ModelConfig changed(const char* base, const std::string& key, const char* value) {
  return changed(base, {{key.c_str(), value}});
}
inline std::string refusal(const char* base, const std::string& key, const char* value) {
  return error_of([&] { changed(base, key, value); });
}

// The names of all tensors in a checkpoint, sorted.
inline std::vector<std::string> checkpoint_names(const ModelConfig& config) {
  std::unique_ptr<Node> root = Registry::instance().at(config.family->op).build(config.init, {.oracle = true});
  std::vector<std::string> all;
  for (const ParamSpec& param : checkpoint_params(*root, config)) {
    if (param.part_names.empty()) all.push_back(param.name);
    all.insert(all.end(), param.part_names.begin(), param.part_names.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace fk
