#include "models/config.h"

#include <filesystem>

#include "core/error.h"
#include "core/json.h"
#include "models/family.h"
#include "models/in_quotes.h"

namespace fk {
namespace {

const Family& named_family(const JsonFields& fields) {
  const Json* list = fields.find("architectures");
  if (list == nullptr || !list->is_array() || list->empty() || !list->front().is_string())
    throw Error("{} names no architecture; known are {}.", fields.what(), known_architectures());
  const auto& name = list->front().get_ref<const std::string&>();
  if (const Family* family = find_family(name)) {
    // transformers uses model_type and ignores architectures.
    auto model_type = fields.string("model_type");
    if (model_type && *model_type != family->model_type)
      throw Error("{} contradicts itself: its architecture {} belongs to model_type {}, and its model_type is {}.",
                  fields.what(), name, in_quotes(family->model_type), in_quotes(*model_type));
    return *family;
  }
  for (const Family* family : families())
    for (const RefusedArchitecture& refused : family->refused)
      if (refused.name == name) throw Error("{} {}", fields.what(), refused.why);
  throw Error("{} asks for architecture {}; known are {}.", fields.what(), in_quotes(name), known_architectures());
}

}  // namespace

ModelConfig config_from_fields(const JsonFields& fields) {
  const Family& family = named_family(fields);
  ModelConfig config = family.read(FamilyFields(fields, family.architecture));
  config.family = &family;
  config.facts.task = family.task;
  return config;
}

ModelConfig config_from_json(const Json& json, const std::string& what) {
  return config_from_fields(JsonFields(json, what));
}

ModelConfig read_config(const std::string& directory) {
  std::string path = std::filesystem::path(directory) / "config.json";
  return config_from_json(parse_json_file(path), in_quotes(path));
}

}  // namespace fk
