#include "models/gguf.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "models/in_quotes.h"
#include "models/lfs_pointer.h"
#include "ops/formats/weight_format.h"

namespace fk {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kOldestVersion = 2, kNewestVersion = 3;
constexpr int64_t kDefaultAlignment = 32, kMaxAlignment = 1 << 20;
constexpr uint32_t kMaxDimensions = 4;

// Types of values, by the file's numbers.
enum GgufType : uint32_t {
  kTypeU8,
  kTypeI8,
  kTypeU16,
  kTypeI16,
  kTypeU32,
  kTypeI32,
  kTypeF32,
  kTypeBool,
  kTypeString,
  kTypeArray,
  kTypeU64,
  kTypeI64,
  kTypeF64
};

// Bytes of a value; 0 for strings, arrays and unknown types.
int64_t value_bytes(uint32_t type) {
  switch (type) {
    case kTypeU8:
    case kTypeI8:
    case kTypeBool:
      return 1;
    case kTypeU16:
    case kTypeI16:
      return 2;
    case kTypeU32:
    case kTypeI32:
    case kTypeF32:
      return 4;
    case kTypeU64:
    case kTypeI64:
    case kTypeF64:
      return 8;
    default:
      return 0;
  }
}

// Names of the types that tensors may have and that are not read, for the sentence that refuses them.
struct TypeName {
  int32_t type;
  std::string_view name;
};
constexpr TypeName kOtherTypes[] = {{3, "Q4_1"},   {6, "Q5_0"},    {7, "Q5_1"},     {10, "Q2_K"},   {11, "Q3_K"},
                                    {13, "Q5_K"},  {15, "Q8_K"},   {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},
                                    {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"},   {22, "IQ2_S"},  {23, "IQ4_XS"},
                                    {24, "I8"},    {25, "I16"},    {26, "I32"},     {27, "I64"},    {28, "F64"},
                                    {29, "IQ1_M"}, {34, "TQ1_0"},  {35, "TQ2_0"},   {39, "MXFP4"},  {40, "NVFP4"}};

struct PlainType {
  int32_t type;
  DType dtype;
};
constexpr PlainType kPlainTypes[] = {{0, DType::kF32}, {1, DType::kF16}, {30, DType::kBF16}};

// Reads from the start of the file on; every read is inside it.
class GgufCursor {
 public:
  GgufCursor(std::span<const std::byte> file, std::string_view path) : file_(file), path_(path) {}

  size_t at() const { return at_; }

  std::span<const std::byte> take(uint64_t bytes) {
    if (bytes > file_.size() - at_)
      throw Error(
          "{} is a broken GGUF file: its header ends after {} bytes, in the middle of a value; fetch the file again.",
          in_quotes(path_), file_.size());
    auto part = file_.subspan(at_, bytes);
    at_ += bytes;
    return part;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view text() {
    auto bytes = take(number<uint64_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  [[noreturn]] void refuse(const std::string& reason) const {
    throw Error("{} is a broken GGUF file: {}; fetch the file again.", in_quotes(path_), reason);
  }

 private:
  std::span<const std::byte> file_;
  std::string_view path_;
  size_t at_ = 0;
};

template <class T>
T number_at(std::span<const std::byte> data, int64_t i = 0) {
  T value;
  std::memcpy(&value, data.data() + i * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}

int64_t integer_at(uint32_t type, std::span<const std::byte> data, int64_t i) {
  switch (type) {
    case kTypeU8:
    case kTypeBool:
      return number_at<uint8_t>(data, i);
    case kTypeI8:
      return number_at<int8_t>(data, i);
    case kTypeU16:
      return number_at<uint16_t>(data, i);
    case kTypeI16:
      return number_at<int16_t>(data, i);
    case kTypeU32:
      return number_at<uint32_t>(data, i);
    case kTypeI32:
      return number_at<int32_t>(data, i);
    default:
      return number_at<int64_t>(data, i);  // of unsigned ones too: values beyond 2^63 become negative and are refused
  }
}

GgufValue read_array(GgufCursor& cursor, std::string_view key) {
  GgufValue value;
  value.kind = GgufValue::Kind::kArray;
  value.element_type = cursor.number<uint32_t>();
  auto count = cursor.number<uint64_t>();
  if (count > (uint64_t{1} << 40)) cursor.refuse(fmt::format("{} has {} elements", in_quotes(key), count));
  value.elements = static_cast<int64_t>(count);
  size_t begin = cursor.at();
  GgufCursor start = cursor;
  if (value.element_type == kTypeString) {
    for (uint64_t i = 0; i < count; ++i) cursor.text();
  } else if (int64_t bytes = value_bytes(value.element_type); bytes > 0) {
    cursor.take(count * static_cast<uint64_t>(bytes));
  } else {
    cursor.refuse(fmt::format("{} is an array of values of the unknown type {}", in_quotes(key), value.element_type));
  }
  value.data = start.take(cursor.at() - begin);
  return value;
}

GgufValue read_value(GgufCursor& cursor, std::string_view key) {
  auto type = cursor.number<uint32_t>();
  if (type == kTypeArray) return read_array(cursor, key);
  GgufValue value;
  if (type == kTypeString) {
    value.kind = GgufValue::Kind::kString;
    value.text = cursor.text();
    return value;
  }
  int64_t bytes = value_bytes(type);
  if (bytes == 0) cursor.refuse(fmt::format("{} is of the unknown type {}", in_quotes(key), type));
  auto data = cursor.take(static_cast<uint64_t>(bytes));
  if (type == kTypeF32 || type == kTypeF64) {
    value.kind = GgufValue::Kind::kReal;
    value.real = type == kTypeF32 ? static_cast<double>(number_at<float>(data)) : number_at<double>(data);
  } else {
    value.kind = type == kTypeBool ? GgufValue::Kind::kBoolean : GgufValue::Kind::kInteger;
    value.integer = integer_at(type, data, 0);
  }
  return value;
}

// Rows from the outermost dimension on; the file has the innermost first.
GgufTensor describe(const std::vector<int64_t>& extents, int32_t type, std::string_view name, std::string_view path,
                    GgufCursor& cursor) {
  GgufTensor tensor;
  std::vector<int64_t> shape(extents.rbegin(), extents.rend());
  for (const PlainType& plain : kPlainTypes)
    if (plain.type == type) {
      tensor.spec = {Shape(shape), plain.dtype};
      return tensor;
    }
  if (const WeightFormat* format = weight_format_of_gguf(type)) {
    if (shape.empty() || shape.back() % format->block_elements != 0)
      cursor.refuse(fmt::format("tensor {} in {} has rows that are not whole blocks of {} elements", in_quotes(name),
                                format->name, format->block_elements));
    shape.back() = format->row_bytes(shape.back());
    tensor.spec = {Shape(shape), DType::kU8};
    tensor.format = format->name;
    return tensor;
  }
  std::string known = "f32, f16, bf16", stored = fmt::format("type {}", type);
  for (const WeightFormat* format : weight_formats())
    if (format->gguf_type >= 0) known += fmt::format(", {}", format->name);
  for (const TypeName& other : kOtherTypes)
    if (other.type == type) stored = other.name;
  throw Error("{} stores tensor {} as {}, which is not supported; supported are {}.", in_quotes(path), in_quotes(name),
              stored, known);
}

}  // namespace

GgufHeader parse_gguf(std::span<const std::byte> file, std::string_view path) {
  refuse_lfs_pointer({reinterpret_cast<const char*>(file.data()), file.size()}, in_quotes(path), "the weights");
  GgufCursor cursor(file, path);
  if (file.size() < kMagic.size() || std::memcmp(cursor.take(4).data(), kMagic.data(), 4) != 0)
    throw Error("{} is not a GGUF file: it does not begin with the letters GGUF.", in_quotes(path));
  auto version = cursor.number<uint32_t>();
  if (version < kOldestVersion || version > kNewestVersion)
    throw Error("{} is of version {} of GGUF; versions {} and {}, little-endian, are read.", in_quotes(path), version,
                kOldestVersion, kNewestVersion);
  auto tensors = cursor.number<uint64_t>(), values = cursor.number<uint64_t>();
  GgufHeader header;
  for (uint64_t i = 0; i < values; ++i) {
    std::string key(cursor.text());
    GgufValue value = read_value(cursor, key);
    if (!header.metadata.emplace(key, value).second) cursor.refuse(fmt::format("{} is there twice", in_quotes(key)));
  }
  auto align = header.metadata.find("general.alignment");
  int64_t alignment = align == header.metadata.end() ? kDefaultAlignment : align->second.integer;
  if (alignment < 1 || alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0)
    cursor.refuse("general.alignment is not a power of two of a usual size");

  std::vector<std::pair<std::string, uint64_t>> offsets;
  for (uint64_t i = 0; i < tensors; ++i) {
    std::string name(cursor.text());
    auto dimensions = cursor.number<uint32_t>();
    if (dimensions > kMaxDimensions)
      cursor.refuse(fmt::format("tensor {} has {} dimensions", in_quotes(name), dimensions));
    std::vector<int64_t> extents;
    int64_t elements = 8;  // no element takes more bytes
    for (uint32_t d = 0; d < dimensions; ++d) {
      extents.push_back(cursor.number<int64_t>());
      if (extents.back() < 1 || __builtin_mul_overflow(elements, extents.back(), &elements))
        cursor.refuse(fmt::format("tensor {} has a dimension of {}", in_quotes(name), extents.back()));
    }
    auto type = cursor.number<uint32_t>();
    offsets.emplace_back(name, cursor.number<uint64_t>());
    GgufTensor tensor = describe(extents, static_cast<int32_t>(type), name, path, cursor);
    if (!header.tensors.emplace(name, tensor).second)
      cursor.refuse(fmt::format("tensor {} is there twice", in_quotes(name)));
  }
  uint64_t unit = static_cast<uint64_t>(alignment), data = (cursor.at() + unit - 1) / unit * unit;
  for (const auto& [name, offset] : offsets) {
    GgufTensor& tensor = header.tensors.at(name);
    uint64_t begin = 0, end = 0;
    if (offset % unit != 0) cursor.refuse(fmt::format("tensor {} is not aligned", in_quotes(name)));
    if (__builtin_add_overflow(data, offset, &begin) || __builtin_add_overflow(begin, tensor.spec.size_bytes(), &end) ||
        end > file.size())
      throw Error("{} ends before its tensor {} does; it was not fetched completely.", in_quotes(path),
                  in_quotes(name));
    tensor.begin = begin;
    tensor.end = end;
  }
  return header;
}

GgufFile GgufFile::open(const std::string& path) {
  GgufFile result;
  result.path_ = path;
  result.file_ = MappedFile(path);
  result.header_ = parse_gguf(result.file_.bytes(), path);
  return result;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  auto found = header_.metadata.find(key);
  return found == header_.metadata.end() ? nullptr : &found->second;
}

void GgufFile::refuse(std::string_view key, std::string_view wanted) const {
  throw Error("{} is broken: its {} is not {}.", in_quotes(path_), in_quotes(key), wanted);
}

std::optional<int64_t> GgufFile::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind != GgufValue::Kind::kInteger || value->integer < 0) refuse(key, "a whole number");
  return value->integer;
}

std::optional<double> GgufFile::real(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind != GgufValue::Kind::kReal) refuse(key, "a number with a fraction");
  return value->real;
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind != GgufValue::Kind::kBoolean) refuse(key, "true or false");
  return value->integer != 0;
}

std::optional<std::string> GgufFile::string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind != GgufValue::Kind::kString) refuse(key, "a text");
  return std::string(value->text);
}

std::optional<std::vector<std::string_view>> GgufFile::strings(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind != GgufValue::Kind::kArray || value->element_type != kTypeString) refuse(key, "a list of texts");
  std::vector<std::string_view> list;
  GgufCursor cursor(value->data, path_);
  for (int64_t i = 0; i < value->elements; ++i) list.push_back(cursor.text());
  return list;
}

std::optional<std::vector<int64_t>> GgufFile::integers(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  uint32_t type = value->element_type;
  if (value->kind != GgufValue::Kind::kArray || type == kTypeString || type == kTypeF32 || type == kTypeF64)
    refuse(key, "a list of whole numbers");
  std::vector<int64_t> list;
  for (int64_t i = 0; i < value->elements; ++i) list.push_back(integer_at(type, value->data, i));
  return list;
}

std::optional<std::vector<float>> GgufFile::reals(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind != GgufValue::Kind::kArray || value->element_type != kTypeF32) refuse(key, "a list of floats");
  std::vector<float> list;
  for (int64_t i = 0; i < value->elements; ++i) list.push_back(number_at<float>(value->data, i));
  return list;
}

}  // namespace fk
