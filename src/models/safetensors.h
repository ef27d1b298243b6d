// A .safetensors file: eight bytes of header length, a JSON header, then the tensors one after the other.
//
// The header is checked completely before the first tensor is read, so that every tensor is inside the file.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "core/tensor.h"
#include "models/mapped_file.h"

namespace fk {

struct SafetensorsEntry {
  TensorSpec spec;
  size_t begin = 0;  // bytes from the start of the file; end - begin is the size of spec
  size_t end = 0;
};

using SafetensorsEntries = std::map<std::string, SafetensorsEntry, std::less<>>;

// The tensors of a file given as bytes. `path` names it in errors. Throws Error if anything is wrong.
SafetensorsEntries parse_safetensors(std::span<const std::byte> file, std::string_view path);

// How the format spells a dtype: "BF16".
std::string_view safetensors_dtype_name(DType dtype);

class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::string& path);

  const std::string& path() const { return path_; }
  const SafetensorsEntries& entries() const { return entries_; }
  // Memory of the mapping, read only. The format guarantees no alignment.
  View view(const SafetensorsEntry& entry) const { return View(file_.bytes().data() + entry.begin, entry.spec); }
  void release(const SafetensorsEntry& entry) const {
    file_.release(file_.bytes().subspan(entry.begin, entry.end - entry.begin));
  }

 private:
  std::string path_;
  MappedFile file_;
  SafetensorsEntries entries_;
};

}  // namespace fk
