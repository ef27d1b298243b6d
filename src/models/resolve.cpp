#include "models/resolve.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <vector>

#include "core/closest.h"
#include "core/error.h"
#include "core/input_file.h"
#include "models/catalog.h"
#include "models/config.h"
#include "models/gguf_model.h"
#include "models/in_quotes.h"
#include "models/other_formats.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

// Found as huggingface_hub does. Empty if there is no home directory.
fs::path hub_cache() {
  if (auto cache = environment("HF_HUB_CACHE")) return *cache;
  if (auto home = environment("HF_HOME")) return fs::path(*home) / "hub";
  if (auto cache = environment("XDG_CACHE_HOME")) return fs::path(*cache) / "huggingface" / "hub";
  if (auto home = environment("HOME")) return fs::path(*home) / ".cache" / "huggingface" / "hub";
  return {};
}

// A word that is safe as one component of a path.
bool is_plain(std::string_view word) {
  return !word.empty() && word.front() != '.' && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

// "org/name" -> "models--org--name"; empty where the text is no such id.
std::string cache_folder(std::string_view id) {
  size_t slash = id.find('/');
  if (slash == std::string_view::npos) return is_plain(id) ? fmt::format("models--{}", id) : "";
  std::string_view org = id.substr(0, slash), name = id.substr(slash + 1);
  return is_plain(org) && is_plain(name) ? fmt::format("models--{}--{}", org, name) : "";
}

// The directory of the revision `main` in the cache of the hub's client.
std::optional<fs::path> cached_snapshot(std::string_view id) {
  std::string folder = cache_folder(id);
  fs::path cache = hub_cache();
  if (folder.empty() || cache.empty()) return std::nullopt;
  fs::path ref = cache / folder / "refs" / "main";
  if (!is_there(ref)) return std::nullopt;
  std::istringstream file(read_file(ref, in_quotes(ref.string()), "", 4096));
  std::string revision;
  if (!(file >> revision)) return std::nullopt;
  if (!is_plain(revision)) throw Error("{} does not hold the name of a revision.", in_quotes(ref.string()));
  fs::path snapshot = cache / folder / "snapshots" / revision;
  if (!is_there(snapshot / "config.json")) {
    throw Error("{} is in the Hugging Face cache, but {} has no config.json; download the model again.", in_quotes(id),
                in_quotes(snapshot.string()));
  }
  return snapshot;
}

ModelSource from_directory(std::string_view name, const fs::path& directory) {
  ModelSource source;
  source.name = name;
  source.config = read_config(directory);
  source.directory = directory;
  if (is_there(directory / "tokenizer.json")) source.tokenizer = directory / "tokenizer.json";
  return source;
}

ModelSource from_gguf(std::string_view path) {
  ModelSource source;
  source.name = source.gguf = path;
  source.config = gguf_config(GgufFile::open(source.gguf));
  return source;
}

// Names of the catalog similar to the text, or whose Hugging Face id is similar to it.
std::vector<std::string> near_names(std::string_view model) {
  std::vector<std::string> spellings, result;
  for (const CatalogEntry& entry : catalog()) {
    spellings.push_back(entry.name);
    if (!entry.hf_id.empty()) spellings.push_back(entry.hf_id);
  }
  for (const std::string& near : closest_names(model, spellings)) {
    for (const CatalogEntry& entry : catalog()) {
      bool listed = std::find(result.begin(), result.end(), entry.name) != result.end();
      if (!listed && (near == entry.name || near == entry.hf_id)) result.push_back(entry.name);
    }
  }
  return result;
}

}  // namespace

ModelSource resolve_model(std::string_view model) {
  if (model.empty()) throw Error("The model is empty; give a directory, a name from `fastkernels list`, or an id.");
  if (model.size() > 4096) throw Error("The model {} is too long for a path or a name.", in_quotes(model));
  fs::path path(model);
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    if (is_there(path / "config.json")) return from_directory(model, path);
    throw Error("The directory {} holds no config.json{}; give the directory of a Hugging Face model, or a GGUF file.",
                in_quotes(model), other_weights_in(std::string(model)));
  }
  if (model.ends_with(".gguf") && is_there(path)) return from_gguf(model);
  if (std::string format = weight_format_of(std::string(model)); !format.empty() && is_there(path)) {
    throw Error(
        "{} is a file ({}); give the directory of a Hugging Face model, with config.json and model.safetensors.",
        in_quotes(model), format);
  }
  if (const CatalogEntry* entry = find_catalog(model)) return {entry->name, entry->config, "", ""};
  if (auto snapshot = cached_snapshot(model)) return from_directory(model, *snapshot);
  std::vector<std::string> near = near_names(model);
  throw Error(
      "There is no model {}: it is not a directory, not a GGUF file, not a name of the catalog ({}), and not a Hugging "
      "Face id in "
      "{}.",
      in_quotes(model), near.empty() ? "see fastkernels list" : fmt::format("near are {}", fmt::join(near, ", ")),
      in_quotes(hub_cache().string()));
}

}  // namespace fk
