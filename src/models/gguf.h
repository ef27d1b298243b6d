// A GGUF file of llama.cpp: metadata as (key, value) pairs, a list of tensors, then their data.
//
// Everything before the data is checked completely before the first tensor is read, so that every tensor and every
// string is inside the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "models/mapped_file.h"

namespace fk {

// A value of the metadata. Strings and arrays are parts of the file.
struct GgufValue {
  enum class Kind : uint8_t { kInteger, kReal, kBoolean, kString, kArray };
  Kind kind = Kind::kInteger;
  int64_t integer = 0;  // or 0 or 1 of a boolean
  double real = 0;
  std::string_view text;
  uint32_t element_type = 0;             // of an array, in the file's numbers
  int64_t elements = 0;                  // of an array
  std::span<const std::byte> data = {};  // of an array
};

struct GgufTensor {
  TensorSpec spec;     // of a quantised matrix: u8 [rows, bytes of a row]
  std::string format;  // its weight format; empty: elements of spec.dtype
  size_t begin = 0;    // bytes from the start of the file; end - begin is the size of spec
  size_t end = 0;
};

struct GgufHeader {
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::map<std::string, GgufTensor, std::less<>> tensors;
};

// Of a file given as bytes, which must outlive the result. `path` names it in errors. Throws Error if anything is
// wrong.
GgufHeader parse_gguf(std::span<const std::byte> file, std::string_view path);

class GgufFile {
 public:
  static GgufFile open(const std::string& path);

  const std::string& path() const { return path_; }
  const GgufHeader& header() const { return header_; }
  // Memory of the mapping, read only.
  View view(const GgufTensor& tensor) const { return View(file_.bytes().data() + tensor.begin, tensor.spec); }
  void release(const GgufTensor& tensor) const {
    file_.release(file_.bytes().subspan(tensor.begin, tensor.end - tensor.begin));
  }

  // Values of the metadata; nothing where the key is absent, Error where the value is of another kind.
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> real(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string> string(std::string_view key) const;
  std::optional<std::vector<std::string_view>> strings(std::string_view key) const;
  std::optional<std::vector<int64_t>> integers(std::string_view key) const;
  std::optional<std::vector<float>> reals(std::string_view key) const;

 private:
  const GgufValue* find(std::string_view key) const;
  [[noreturn]] void refuse(std::string_view key, std::string_view wanted) const;

  std::string path_;
  MappedFile file_;
  GgufHeader header_;
};

}  // namespace fk
