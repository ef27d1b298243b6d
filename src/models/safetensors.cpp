#include "models/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "core/check.h"
#include "core/error.h"
#include "core/json.h"
#include "models/in_quotes.h"
#include "models/lfs_pointer.h"

namespace fk {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the format's own reader

struct Spelling {
  std::string_view name;
  DType dtype;
};
constexpr Spelling kDTypes[] = {
    {"F64", DType::kF64},        {"F32", DType::kF32},        {"F16", DType::kF16},   {"BF16", DType::kBF16},
    {"F8_E4M3", DType::kF8E4M3}, {"F8_E5M2", DType::kF8E5M2}, {"I8", DType::kI8},     {"U8", DType::kU8},
    {"I32", DType::kI32},        {"I64", DType::kI64},        {"BOOL", DType::kBool},
};

// One tensor's entry of the header, with the messages for errors in it.
class EntryReader {
 public:
  EntryReader(std::string_view path, std::string_view tensor, const Json& entry)
      : path_(path), tensor_(tensor), entry_(entry) {
    if (!entry.is_object()) refuse("its entry is not an object");
    for (const auto& [key, value] : entry.items())
      if (key != "dtype" && key != "shape" && key != "data_offsets")
        refuse(fmt::format("its entry holds the unknown key {}", in_quotes(key)));
  }

  // Offsets count from the end of the header, whose tensors take `data_bytes`.
  SafetensorsEntry read(size_t data_start, size_t data_bytes) const {
    SafetensorsEntry result;
    result.spec.dtype = dtype();
    int64_t size_bytes = 0;
    result.spec.shape = shape(result.spec.dtype, size_bytes);
    std::vector<int64_t> offsets = integers("data_offsets");
    if (offsets.size() != 2) refuse("its data_offsets are not two numbers");
    auto [begin, end] = std::pair(static_cast<uint64_t>(offsets[0]), static_cast<uint64_t>(offsets[1]));
    if (begin > end) refuse(fmt::format("its data begins at {} and ends before that, at {}", begin, end));
    if (end > data_bytes) {
      refuse(fmt::format("its data ends at byte {} but the file holds only {} bytes of data", end, data_bytes));
    }
    if (end - begin != static_cast<uint64_t>(size_bytes)) {
      refuse(fmt::format("{}{} takes {} bytes but its data_offsets span {}", dtype_name(result.spec.dtype),
                         result.spec.shape.str(), size_bytes, end - begin));
    }
    result.begin = data_start + begin;
    result.end = data_start + end;
    return result;
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const {
    throw Error("{} is broken at tensor {}: {}; fetch the file again.", in_quotes(path_), in_quotes(tensor_), reason);
  }

  const Json& member(const char* key) const {
    auto found = entry_.find(key);
    if (found == entry_.end()) refuse(fmt::format("its entry has no {}", key));
    return *found;
  }

  DType dtype() const {
    const Json& value = member("dtype");
    if (!value.is_string()) refuse("its dtype is not a string");
    const auto& name = value.get_ref<const std::string&>();
    for (const Spelling& s : kDTypes)
      if (s.name == name) return s.dtype;
    throw Error("{} stores tensor {} as {}, which this program does not read; convert it to BF16, F16 or F32.",
                in_quotes(path_), in_quotes(tensor_), in_quotes(name));
  }

  Shape shape(DType dtype, int64_t& size_bytes) const {
    std::vector<int64_t> extents = integers("shape");
    if (extents.size() > kMaxRank)
      refuse(fmt::format("it has {} dimensions and at most {} are supported", extents.size(), kMaxRank));
    // Strides are products of extents too, so they must fit even where another extent is 0.
    auto span_bytes = static_cast<int64_t>(dtype_size(dtype));
    bool empty = false;
    for (int64_t extent : extents) {
      empty |= extent == 0;
      if (__builtin_mul_overflow(span_bytes, std::max<int64_t>(extent, 1), &span_bytes))
        refuse("its shape is too large to be counted in 64 bits");
    }
    size_bytes = empty ? 0 : span_bytes;
    return Shape(extents);
  }

  std::vector<int64_t> integers(const char* key) const {
    const Json& list = member(key);
    if (!list.is_array()) refuse(fmt::format("its {} is not a list", key));
    std::vector<int64_t> result;
    for (const Json& value : list) {
      if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
        refuse(fmt::format("its {} holds something that is not a whole number from 0 to 2^63-1", key));
      result.push_back(value.get<int64_t>());
    }
    return result;
  }

  std::string_view path_;
  std::string_view tensor_;
  const Json& entry_;
};

void check_metadata(const Json& metadata, std::string_view path) {
  bool strings = metadata.is_object() &&
                 std::all_of(metadata.begin(), metadata.end(), [](const Json& value) { return value.is_string(); });
  if (!strings) throw Error("{} is broken: its __metadata__ is not an object of strings.", in_quotes(path));
}

// The tensors must cover the data exactly: a gap or an overlap means that the file is corrupt.
void check_tiling(const SafetensorsEntries& entries, size_t data_start, size_t file_size, std::string_view path) {
  std::vector<const SafetensorsEntries::value_type*> by_place;
  for (const auto& entry : entries) by_place.push_back(&entry);
  std::sort(by_place.begin(), by_place.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  size_t covered = data_start;
  const std::string* previous = nullptr;
  for (const auto* place : by_place) {
    const auto& [name, entry] = *place;
    if (entry.begin < covered) {
      throw Error("{} is broken: tensors {} and {} overlap; fetch the file again.", in_quotes(path),
                  in_quotes(*previous), in_quotes(name));
    }
    if (entry.begin > covered) {
      throw Error("{} is broken: {} bytes before tensor {} belong to no tensor; fetch the file again.", in_quotes(path),
                  entry.begin - covered, in_quotes(name));
    }
    covered = entry.end;
    previous = &name;
  }
  if (covered != file_size) {
    throw Error("{} is broken: the last {} bytes belong to no tensor; fetch the file again.", in_quotes(path),
                file_size - covered);
  }
}

}  // namespace

std::string_view safetensors_dtype_name(DType dtype) {
  for (const Spelling& s : kDTypes)
    if (s.dtype == dtype) return s.name;
  FK_CHECK(false, "a dtype has no spelling in safetensors");
}

SafetensorsEntries parse_safetensors(std::span<const std::byte> file, std::string_view path) {
  refuse_lfs_pointer({reinterpret_cast<const char*>(file.data()), file.size()}, in_quotes(path), "the weights");
  if (file.size() < kLengthBytes)
    throw Error("{} is not a safetensors file: it has only {} bytes.", in_quotes(path), file.size());
  uint64_t header_bytes = 0;
  static_assert(std::endian::native == std::endian::little, "the length and the tensors are little-endian");
  std::memcpy(&header_bytes, file.data(), kLengthBytes);
  if (header_bytes > kMaxHeaderBytes) {
    throw Error("{} is not a safetensors file: its header claims {} bytes and the format allows {}.", in_quotes(path),
                header_bytes, kMaxHeaderBytes);
  }
  if (header_bytes > file.size() - kLengthBytes) {
    throw Error("{} is truncated: its header claims {} bytes but only {} follow; fetch the file again.",
                in_quotes(path), header_bytes, file.size() - kLengthBytes);
  }
  size_t data_start = kLengthBytes + static_cast<size_t>(header_bytes);
  std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, static_cast<size_t>(header_bytes));
  if (!text.starts_with('{')) throw Error("{} is not a safetensors file: its header is not JSON.", in_quotes(path));
  Json header = parse_json(text, fmt::format("The header of {}", in_quotes(path)));

  SafetensorsEntries entries;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__")
      check_metadata(value, path);
    else
      entries.emplace(name, EntryReader(path, name, value).read(data_start, file.size() - data_start));
  }
  check_tiling(entries, data_start, file.size(), path);
  return entries;
}

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  SafetensorsFile result;
  result.path_ = path;
  result.file_ = MappedFile(path);
  result.entries_ = parse_safetensors(result.file_.bytes(), path);
  return result;
}

}  // namespace fk
