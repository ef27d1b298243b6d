// The weights of a Hugging Face directory: model.safetensors, or the shards model.safetensors.index.json names.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/safetensors.h"

namespace fk {

class Checkpoint {
 public:
  // Index and shards must agree in both directions.
  static Checkpoint open(const std::string& directory);

  const std::string& directory() const { return directory_; }
  std::optional<View> find(std::string_view name) const;  // read only, may be unaligned
  std::vector<std::string> names() const;                 // sorted
  // Releases a tensor's pages after it was copied, so that loading does not use memory twice.
  void release(std::string_view name) const;

 private:
  struct Place {
    size_t file;
    const SafetensorsEntry* entry;
  };

  void add(SafetensorsFile file);

  std::string directory_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Place, std::less<>> places_;  // entries are nodes of maps: moving a file does not move them
};

}  // namespace fk
