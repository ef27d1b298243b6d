#include "models/catalog.h"

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <cstdio>
#include <map>

#include "core/error.h"
#include "models/config.h"
#include "models/family.h"
#include "models/in_quotes.h"

namespace fk {

extern const std::string_view kCatalogText;  // catalog.yaml, through module.cmake

namespace {

using Keys = std::map<std::string, YAML::Node>;  // of one entry, those of `like` included

// "5 local : 1 global": of every six layers, the first five have a sliding window.
std::vector<uint8_t> layer_flags(const std::string& pattern, int64_t layers) {
  int local = 0, global = 0, end = 0;
  if (std::sscanf(pattern.c_str(), "%d local : %d global%n", &local, &global, &end) != 2 || pattern[end] != '\0' ||
      local < 1 || global < 1)
    throw Error("pattern {} is not of the form '5 local : 1 global'", in_quotes(pattern));
  std::vector<uint8_t> result;
  for (int64_t i = 0; i < layers; ++i) result.push_back(i % (local + global) < local);
  return result;
}

RopeScaling rope_scaling(const YAML::Node& node) {
  RopeScaling result;
  for (const auto& item : node) {
    auto key = item.first.as<std::string>();
    if (key == "type")
      result.type = item.second.as<std::string>();
    else if (key == "factor")
      result.factor = item.second.as<double>();
    else if (key == "low_freq_factor")
      result.low_freq_factor = item.second.as<double>();
    else if (key == "high_freq_factor")
      result.high_freq_factor = item.second.as<double>();
    else if (key == "original_max_pos")
      result.original_max_position_embeddings = item.second.as<int64_t>();
    else
      throw Error("rope_scaling has the unknown key {}", in_quotes(key));
  }
  return result;
}

CatalogEntry make_entry(const std::string& name, const Keys& keys) {
  CatalogEntry entry;
  entry.name = name;
  CausalLMConfig& c = entry.config;
  const std::map<std::string, int64_t*> integers = {{"D", &c.hidden_size},
                                                    {"F", &c.intermediate_size},
                                                    {"L", &c.num_hidden_layers},
                                                    {"H", &c.num_attention_heads},
                                                    {"K", &c.num_key_value_heads},
                                                    {"Dh", &c.head_dim},
                                                    {"V", &c.vocab_size},
                                                    {"max_pos", &c.max_position_embeddings},
                                                    {"sliding_window", &c.sliding_window}};
  const std::map<std::string, double*> reals = {{"eps", &c.rms_norm_eps},
                                                {"rope_theta", &c.rope_theta},
                                                {"rope_local_theta", &c.rope_local_base_freq},
                                                {"attn_scalar", &c.query_pre_attn_scalar}};
  const std::map<std::string, bool*> flags = {
      {"tie", &c.tie_word_embeddings}, {"attention_bias", &c.attention_bias}, {"mlp_bias", &c.mlp_bias}};
  std::string pattern;
  for (const auto& [key, value] : keys) {
    if (auto integer = integers.find(key); integer != integers.end())
      *integer->second = value.as<int64_t>();
    else if (auto real = reals.find(key); real != reals.end())
      *real->second = value.as<double>();
    else if (auto flag = flags.find(key); flag != flags.end())
      *flag->second = value.as<bool>();
    else if (key == "hf")
      entry.hf_id = value.as<std::string>();
    else if (key == "arch")
      c.architecture = value.as<std::string>();
    else if (key == "pattern")
      pattern = value.as<std::string>();
    else if (key == "rope_scaling")
      c.rope_scaling = rope_scaling(value);
    else
      throw Error("{} is not a key of an entry", in_quotes(key));
  }
  if (!pattern.empty())
    c.layer_is_sliding = layer_flags(pattern, c.num_hidden_layers);
  else if (c.sliding_window != 0)
    c.layer_is_sliding.assign(static_cast<size_t>(c.num_hidden_layers), 1);
  check_config(c, in_quotes(name));
  const Family& family = *find_family(c.architecture);
  entry.family = family.name;
  entry.category = family.category;
  return entry;
}

}  // namespace

std::vector<CatalogEntry> parse_catalog(std::string_view text) {
  std::vector<CatalogEntry> result;
  std::map<std::string, Keys> known;
  std::string name;
  try {
    for (const auto& item : YAML::Load(std::string(text))) {
      name = item.first.as<std::string>();
      Keys keys;
      if (const YAML::Node& like = item.second["like"]) {
        auto base = known.find(like.as<std::string>());
        if (base == known.end()) throw Error("it is like {}, which is not above it", in_quotes(like.as<std::string>()));
        keys = base->second;
        keys.erase("hf");
      }
      for (const auto& field : item.second) {
        auto key = field.first.as<std::string>();
        if (key == "like") continue;
        keys.erase(key);  // assigning to a node would change the entry it came from
        keys.emplace(key, field.second);
      }
      if (!known.emplace(name, keys).second) throw Error("its name appears twice");
      result.push_back(make_entry(name, keys));
    }
  } catch (const YAML::Exception& e) {
    throw Error("The catalog is wrong at entry {}: {}.", in_quotes(name), e.what());
  } catch (const Error& e) {
    throw Error("The catalog is wrong at entry {}: {}.", in_quotes(name), e.what());
  }
  return result;
}

const std::vector<CatalogEntry>& catalog() {
  static const std::vector<CatalogEntry> entries = parse_catalog(kCatalogText);
  return entries;
}

const CatalogEntry* find_catalog(std::string_view name) {
  for (const CatalogEntry& entry : catalog())
    if (entry.name == name) return &entry;
  return nullptr;
}

}  // namespace fk
