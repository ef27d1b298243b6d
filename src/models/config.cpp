#include "models/config.h"

#include <algorithm>
#include <filesystem>
#include <span>

#include "core/error.h"
#include "core/input_file.h"
#include "core/json.h"
#include "models/family.h"
#include "models/in_quotes.h"
#include "models/quantization_config.h"

namespace fk {
namespace {

// transformers uses model_type and ignores architectures.
void check_model_type(const JsonFields& fields, std::string_view architecture, std::string_view expected,
                      std::span<const std::string_view> others = {}) {
  auto model_type = fields.string("model_type");
  if (model_type && *model_type != expected && std::find(others.begin(), others.end(), *model_type) == others.end())
    throw Error("{} contradicts itself: its architecture {} belongs to model_type {}, and its model_type is {}.",
                fields.what(), architecture, in_quotes(expected), in_quotes(*model_type));
}

// `part`: the object of the file that describes the model; empty: the whole file.
const Family& named_family(const JsonFields& fields, std::string_view& part) {
  const Json* list = fields.find("architectures");
  if (list == nullptr || !list->is_array() || list->empty() || !list->front().is_string())
    throw Error("{} names no architecture; known are {}.", fields.what(), known_architectures());
  const auto& name = list->front().get_ref<const std::string&>();
  if (const Family* family = find_family(name)) {
    check_model_type(fields, name, family->model_type, family->other_model_types);
    return *family;
  }
  LargerArchitecture larger;
  if (const Family* family = find_larger(name, larger)) {
    check_model_type(fields, name, larger.model_type);
    part = larger.config_key;
    return *family;
  }
  for (const Family* family : families())
    for (const RefusedArchitecture& refused : family->refused)
      if (refused.name == name) throw Error("{} {}", fields.what(), refused.why);
  throw Error("{} asks for architecture {}; known are {}.", fields.what(), in_quotes(name), known_architectures());
}

// Python writes the float infinity as the word Infinity, which is no JSON; here it becomes a string. Published configs
// of Mamba 2 have it.
std::string quote_infinity(const std::string& text) {
  constexpr std::string_view kWord = "Infinity";
  std::string result;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!in_string && text.compare(i, kWord.size(), kWord) == 0) {
      result += "\"Infinity\"";
      i += kWord.size() - 1;
      continue;
    }
    if (text[i] == '"') in_string = !in_string;
    result += text[i];
    if (in_string && text[i] == '\\' && i + 1 < text.size()) result += text[++i];
  }
  return result;
}

constexpr int64_t kMaxPredictingLayers = 64;

std::string config_path(const std::string& directory) { return std::filesystem::path(directory) / "config.json"; }
Json json_of_config(const std::string& path) { return parse_json(quote_infinity(read_file(path, path)), path); }

}  // namespace

ModelConfig config_from_fields(const JsonFields& fields) {
  std::string_view part;
  const Family& family = named_family(fields, part);
  FamilyFields whole(fields, family.architecture);
  ModelConfig config;
  if (part.empty()) {
    config = family.read(whole);
  } else {
    std::optional<JsonFields> object = fields.object(part);
    if (!object) throw Error("{} has no {}.", fields.what(), part);
    config = family.read(FamilyFields(*object, family.architecture));
    if (!object->has("dtype") && !object->has("torch_dtype")) config.set_dtype(read_dtype(whole));
    if (is_encoder(family.task))
      refuse_quantized(whole);
    else
      check_quantization(whole);
  }
  config.family = &family;
  config.facts.task = family.task;
  return config;
}

ModelConfig config_from_json(const Json& json, const std::string& what) {
  return config_from_fields(JsonFields(json, what));
}

ModelConfig read_config(const std::string& directory) {
  const std::string path = config_path(directory);
  return config_from_json(json_of_config(path), in_quotes(path));
}

StoredExtras read_stored_extras(const std::string& directory) {
  const std::string path = config_path(directory);
  const Json json = json_of_config(path);
  const JsonFields fields(json, in_quotes(path));
  std::string_view part;
  named_family(fields, part);
  const JsonFields model = part.empty() ? fields : fields.object(part).value();
  // transformers writes it for the whole file, other programs sometimes for the part.
  return {read_stored_formats(fields.has("quantization_config") ? fields : model),
          model.integer("num_nextn_predict_layers", 0, kMaxPredictingLayers).value_or(0)};
}

}  // namespace fk
