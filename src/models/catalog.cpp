#include "models/catalog.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <map>
#include <set>

#include "core/error.h"
#include "core/json.h"
#include "models/config.h"
#include "models/family.h"
#include "models/flow_text.h"
#include "models/in_quotes.h"
#include "models/json_fields.h"

namespace fk {

extern const std::string_view kCatalogText;  // catalog.yaml, through module.cmake

namespace {

using Keys = std::map<std::string, Json, std::less<>>;  // of one entry, those of `like` included

// The short names of the catalog, and what config.json calls them.
const std::map<std::string, std::string, std::less<>> kShort = {
    {"D", "hidden_size"},         {"F", "intermediate_size"},
    {"L", "num_hidden_layers"},   {"H", "num_attention_heads"},
    {"K", "num_key_value_heads"}, {"Dh", "head_dim"},
    {"V", "vocab_size"},          {"max_pos", "max_position_embeddings"},
    {"eps", "rms_norm_eps"},      {"tie", "tie_word_embeddings"}};

std::string text_of(std::string_view key, const Json& value) {
  if (!value.is_string()) throw Error("{} is no text", in_quotes(key));
  return value.get<std::string>();
}

// "5 local : 1 global": of every six layers, the first five have a sliding window.
Json layer_types(const std::string& pattern, const Json& layers) {
  int local = 0, global = 0, end = 0;
  if (std::sscanf(pattern.c_str(), "%d local : %d global%n", &local, &global, &end) != 2 || pattern[end] != '\0' ||
      local < 1 || global < 1)
    throw Error("pattern {} is not of the form '5 local : 1 global'", in_quotes(pattern));
  Json result = Json::array();
  if (!layers.is_number_integer()) return result;
  for (int64_t i = 0; i < layers.get<int64_t>(); ++i)
    result.push_back(i % (local + global) < local ? "sliding_attention" : "full_attention");
  return result;
}

Json rope_scaling(const Json& given) {
  constexpr std::string_view kKnown[] = {
      "type",          "factor",    "low_freq_factor", "high_freq_factor", "original_max_position_embeddings",
      "beta_fast",     "beta_slow", "truncate",        "attention_factor", "mscale",
      "mscale_all_dim"};
  Json result = Json::object();
  if (!given.is_object()) throw Error("rope_scaling is no map");
  for (const auto& [key, value] : given.items()) {
    if (std::find(std::begin(kKnown), std::end(kKnown), key) == std::end(kKnown))
      throw Error("rope_scaling has the unknown key {}", in_quotes(key));
    result[key == "type" ? "rope_type" : key] = value;
  }
  return result;
}

// The entry as the config.json of such a model.
Json config_json(const Keys& keys) {
  Json json = {{"dtype", "bfloat16"}};
  for (const auto& [key, value] : keys) {
    if (key == "arch")
      json["architectures"] = Json::array({value});
    else if (key == "rope_scaling")
      json[key] = rope_scaling(value);
    else if (auto full = kShort.find(key); full != kShort.end())
      json[full->second] = value;
    else if (key != "hf" && key != "pattern")
      json[key] = value;
  }
  if (auto pattern = keys.find("pattern"); pattern != keys.end())
    json["layer_types"] = layer_types(text_of("pattern", pattern->second), json["num_hidden_layers"]);
  return json;
}

CatalogEntry make_entry(const std::string& name, const Keys& keys) {
  CatalogEntry entry;
  entry.name = name;
  if (auto hf = keys.find("hf"); hf != keys.end()) entry.hf_id = text_of("hf", hf->second);
  Json json = config_json(keys);
  JsonFields fields(json, in_quotes(name));
  std::set<std::string, std::less<>> asked;
  fields.record_keys(asked);
  entry.config = config_from_fields(fields);
  // A file of transformers holds much that changes nothing; an entry of the catalog does not.
  for (const auto& [key, value] : json.items())
    if (!asked.contains(key)) throw Error("{} is not a key that {} reads", in_quotes(key), entry.config.architecture());
  entry.config_json = dump_json(json);
  entry.family = entry.config.family->name;
  entry.category = entry.config.family->category;
  return entry;
}

}  // namespace

std::vector<CatalogEntry> parse_catalog(std::string_view text) {
  std::vector<CatalogEntry> result;
  std::map<std::string, Keys> known;
  std::string name;
  try {
    for (FlowEntry& item : parse_flow_entries(text)) {
      name = item.name;
      Keys keys;
      for (const auto& [key, value] : item.fields) {
        if (key != "like") continue;
        const std::string like = text_of(key, value);
        auto base = known.find(like);
        if (base == known.end()) throw Error("it is like {}, which is not above it", in_quotes(like));
        keys = base->second;
        keys.erase("hf");
      }
      std::set<std::string_view> own;
      for (auto& [key, value] : item.fields) {
        if (!own.insert(key).second) throw Error("{} appears twice", in_quotes(key));
        if (key != "like") keys.insert_or_assign(key, std::move(value));
      }
      if (!known.emplace(name, keys).second) throw Error("its name appears twice");
      result.push_back(make_entry(name, keys));
    }
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
