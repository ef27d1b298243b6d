#include "models/generation_defaults.h"

#include <filesystem>

#include "core/error.h"
#include "core/json.h"
#include "models/in_quotes.h"
#include "models/json_fields.h"

namespace fk {
namespace {

SamplingDefaults sampling_of(const JsonFields& fields) {
  if (!fields.boolean("do_sample").value_or(false)) return {};
  constexpr double kMost = 1e4;
  return {.temperature = fields.real("temperature", 0, kMost).value_or(1),
          .top_k = fields.integer("top_k", 0, INT32_MAX),
          .top_p = fields.real("top_p", 0, 1),
          .min_p = fields.real("min_p", 0, 1),
          .repetition_penalty = fields.real("repetition_penalty", 0, kMost)};
}

}  // namespace

GenerationDefaults generation_defaults_from_json(const Json& json, const std::string& what) {
  JsonFields fields(json, what);
  GenerationDefaults result;
  result.bos = fields.integer("bos_token_id", 0, INT32_MAX);
  result.sampling = sampling_of(fields);
  const Json* eos = fields.find("eos_token_id");
  if (eos == nullptr) return result;
  if (!eos->is_array()) {
    result.eos.push_back(*fields.integer("eos_token_id", 0, INT32_MAX));
    return result;
  }
  for (const Json& id : *eos) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX)
      throw Error("{}: eos_token_id must be a token id or a list of them.", what);
    result.eos.push_back(id.get<int64_t>());
  }
  return result;
}

GenerationDefaults read_generation_defaults(const std::string& directory) {
  GenerationDefaults result;
  for (const char* name : {"generation_config.json", "config.json"}) {
    std::filesystem::path path = std::filesystem::path(directory) / name;
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    GenerationDefaults found = generation_defaults_from_json(parse_json_file(path), in_quotes(path.string()));
    if (!result.bos) result.bos = found.bos;
    if (result.eos.empty()) result.eos = found.eos;
    if (std::string_view(name) == "generation_config.json") result.sampling = found.sampling;
  }
  return result;
}

}  // namespace fk
