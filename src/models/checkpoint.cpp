#include "models/checkpoint.h"

#include <filesystem>

#include "core/check.h"
#include "core/error.h"
#include "core/json.h"
#include "models/gguf_model.h"
#include "models/in_quotes.h"
#include "models/other_formats.h"

namespace fk {
namespace {

using WeightMap = std::map<std::string, std::string>;  // tensor -> shard

WeightMap read_index(const std::string& path) {
  Json index = parse_json_file(path);
  auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object())
    throw Error("{} has no weight_map of tensors to files.", in_quotes(path));
  WeightMap result;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string()) throw Error("{} gives no file name for tensor {}.", in_quotes(path), in_quotes(tensor));
    const auto& name = shard.get_ref<const std::string&>();
    // A plain file name: an untrusted index must not make us read outside its directory.
    bool plain = !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
                 name.find('\\') == std::string::npos && name.find('\0') == std::string::npos;
    if (!plain) {
      throw Error("{} places tensor {} in {}, which is not the name of a file beside it.", in_quotes(path),
                  in_quotes(tensor), in_quotes(name));
    }
    result.emplace(tensor, name);
  }
  if (result.empty()) throw Error("{} has an empty weight_map.", in_quotes(path));
  return result;
}

}  // namespace

void Checkpoint::add(SafetensorsFile file) {
  files_.push_back(std::move(file));
  for (const auto& [name, entry] : files_.back().entries()) places_[name] = {files_.size() - 1, &entry};
}

Checkpoint Checkpoint::open(const std::string& directory) {
  namespace fs = std::filesystem;
  Checkpoint result;
  result.place_ = directory;
  fs::path single = fs::path(directory) / "model.safetensors";
  fs::path index = fs::path(directory) / "model.safetensors.index.json";
  std::error_code ignored;
  if (fs::exists(single, ignored)) {
    result.add(SafetensorsFile::open(single));
    return result;
  }
  if (!fs::exists(index, ignored)) {
    throw Error(
        "{} holds neither model.safetensors nor model.safetensors.index.json{}; {}, or use --load-format dummy.",
        in_quotes(directory), other_weights_in(directory), advice_on_weights_in(directory));
  }
  WeightMap weight_map = read_index(index);
  std::map<std::string, size_t> claimed;  // shard -> tensors the index places there
  for (const auto& [tensor, shard] : weight_map) ++claimed[shard];
  for (const auto& [shard, tensors] : claimed) {
    SafetensorsFile file = SafetensorsFile::open(fs::path(directory) / shard);
    for (const auto& [name, entry] : file.entries()) {
      auto place = weight_map.find(name);
      if (place == weight_map.end() || place->second != shard) {
        throw Error("{} holds tensor {}, which {} does not place there.", in_quotes(file.path()), in_quotes(name),
                    in_quotes(index.string()));
      }
    }
    if (file.entries().size() != tensors) {
      for (const auto& [tensor, where] : weight_map) {
        if (where == shard && !file.entries().contains(tensor)) {
          throw Error("{} places tensor {} in {}, which does not hold it.", in_quotes(index.string()),
                      in_quotes(tensor), in_quotes(shard));
        }
      }
    }
    result.add(std::move(file));
  }
  return result;
}

Checkpoint Checkpoint::open_gguf(const std::string& path) {
  Checkpoint result;
  result.place_ = path;
  result.gguf_ = GgufFile::open(path);
  for (const auto& [name, tensor] : result.gguf_->header().tensors)
    if (std::string ours = gguf_tensor_name(name); !ours.empty()) result.gguf_places_[ours] = &tensor;
  return result;
}

std::string_view Checkpoint::format(std::string_view name) const {
  auto place = gguf_places_.find(name);
  return place == gguf_places_.end() ? std::string_view() : std::string_view(place->second->format);
}

std::optional<View> Checkpoint::find(std::string_view name) const {
  if (auto place = gguf_places_.find(name); place != gguf_places_.end()) return gguf_->view(*place->second);
  auto place = places_.find(name);
  if (place == places_.end()) return std::nullopt;
  return files_[place->second.file].view(*place->second.entry);
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> result;
  for (const auto& [name, place] : places_) result.push_back(name);
  for (const auto& [name, place] : gguf_places_) result.push_back(name);
  return result;
}

void Checkpoint::release(std::string_view name) const {
  if (auto place = gguf_places_.find(name); place != gguf_places_.end()) return gguf_->release(*place->second);
  auto place = places_.find(name);
  FK_CHECK(place != places_.end());
  files_[place->second.file].release(*place->second.entry);
}

}  // namespace fk
