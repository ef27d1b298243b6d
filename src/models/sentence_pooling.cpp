#include "models/sentence_pooling.h"

#include <filesystem>

#include "core/error.h"
#include "core/json.h"
#include "models/in_quotes.h"
#include "models/json_fields.h"

namespace fk {

std::optional<std::string> read_sentence_pooling(const std::string& directory) {
  std::filesystem::path path = std::filesystem::path(directory) / "1_Pooling" / "config.json";
  std::error_code ignored;
  if (directory.empty() || !std::filesystem::exists(path, ignored)) return std::nullopt;
  Json json = parse_json_file(path.string());
  JsonFields fields(json, in_quotes(path.string()));
  constexpr std::pair<const char*, const char*> kWays[] = {
      {"pooling_mode_cls_token", "cls"}, {"pooling_mode_mean_tokens", "mean"}, {"pooling_mode_lasttoken", "last"}};
  for (const auto& [key, way] : kWays)
    if (fields.boolean(key).value_or(false)) return way;
  throw Error("{} pools neither by the first token, nor by the mean, nor by the last token; give a --pooling.",
              fields.what());
}

}  // namespace fk
