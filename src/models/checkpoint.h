// The weights of a model: model.safetensors of a Hugging Face directory, or the shards model.safetensors.index.json
// names, or a GGUF file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/gguf.h"
#include "models/safetensors.h"

namespace fk {

class Checkpoint {
 public:
  // Index and shards must agree in both directions.
  static Checkpoint open(const std::string& directory);
  static Checkpoint open_gguf(const std::string& path);

  const std::string& place() const { return place_; }  // the directory, or the GGUF file
  // Where its shapes are stated, for errors.
  std::string_view config_words() const { return gguf_ ? "its metadata" : "its config.json"; }
  std::optional<View> find(std::string_view name) const;  // read only, may be unaligned
  // The weight format of a tensor; empty: elements of its dtype.
  std::string_view format(std::string_view name) const;
  std::vector<std::string> names() const;  // sorted
  // Releases a tensor's pages after it was copied, so that loading does not use memory twice.
  void release(std::string_view name) const;

 private:
  struct Place {
    size_t file;
    const SafetensorsEntry* entry;
  };

  void add(SafetensorsFile file);

  std::string place_;
  std::vector<SafetensorsFile> files_;
  std::optional<GgufFile> gguf_;
  std::map<std::string, const GgufTensor*, std::less<>> gguf_places_;  // likewise
  std::map<std::string, Place, std::less<>> places_;  // entries are nodes of maps: moving a file does not move them
};

}  // namespace fk
