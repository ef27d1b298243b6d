#include "models/image_file.h"

#include <fmt/format.h>

#include <cctype>
#include <cstring>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/input_file.h"
#include "models/in_quotes.h"

namespace fk {
namespace {

constexpr size_t kMostBytes = size_t{1} << 30;
constexpr int64_t kMostSide = 1 << 15;  // pixels; products of three sizes stay small

Tensor copy_of(std::string_view bytes, const Shape& shape, DType dtype) {
  Tensor tensor(shape, dtype);
  std::memcpy(tensor.view().data(), bytes.data(), tensor.view().size_bytes());
  return tensor;
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error("The image {} cannot be read: {}.", in_quotes(path), why);
}

// The next number of a PNM header; words behind # are comments up to the end of the line.
int64_t header_number(std::string_view text, size_t& at, const std::string& path) {
  auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (at < text.size() && (is_space(text[at]) || text[at] == '#')) {
    if (text[at] == '#')
      while (at < text.size() && text[at] != '\n') ++at;
    else
      ++at;
  }
  int64_t value = 0;
  size_t begin = at;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && value <= kMostSide * 2; ++at)
    value = value * 10 + (text[at] - '0');
  if (at == begin) refuse(path, "its header must hold a width, a height and a largest value");
  return value;
}

ImageFile read_pnm(std::string_view text, const std::string& path) {
  int64_t channels = text[1] == '6' ? 3 : 1;
  size_t at = 2;
  int64_t width = header_number(text, at, path), height = header_number(text, at, path),
          most = header_number(text, at, path);
  if (width < 1 || height < 1 || width > kMostSide || height > kMostSide)
    refuse(path, fmt::format("sizes must be 1 to {}, and are {} x {}", kMostSide, width, height));
  if (most != 255)
    refuse(path, fmt::format("only 8 bits a channel (a largest value of 255) are supported, not {}", most));
  ++at;  // one white space between the header and the pixels
  auto bytes = static_cast<size_t>(width * height * channels);
  if (at > text.size() || text.size() - at < bytes)
    refuse(path, fmt::format("it should hold {} bytes of pixels and ends early", bytes));
  return {copy_of(text.substr(at), {height, width, channels}, DType::kU8), false};
}

// The value of a key of the header's Python dictionary, up to the end of its quotes or parentheses.
std::string_view npy_value(std::string_view header, std::string_view key, char close) {
  size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  at = header.find(':', at);
  if (at == std::string_view::npos) return {};
  at = header.find_first_of("'(", at);
  size_t end = at == std::string_view::npos ? at : header.find(close, at + 1);
  return end == std::string_view::npos ? std::string_view() : header.substr(at + 1, end - at - 1);
}

std::optional<Shape> npy_shape(std::string_view text) {
  std::vector<int64_t> extents;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == ' ' || text[at] == ',') {
      ++at;
      continue;
    }
    int64_t value = 0;
    size_t begin = at;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && value <= kMostSide; ++at)
      value = value * 10 + (text[at] - '0');
    if (at == begin || value < 1 || value > kMostSide) return std::nullopt;
    extents.push_back(value);
  }
  if (extents.size() == 2) extents.push_back(1);
  if (extents.size() != 3) return std::nullopt;
  return Shape(extents);
}

ImageFile read_npy(std::string_view text, const std::string& path) {
  if (text.size() < 12) refuse(path, "it ends inside its header");
  auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(text[i])); };
  bool first_version = text[6] == 1;
  size_t begin = first_version ? 10 : 12;
  size_t length = byte(8) | byte(9) << 8;
  if (!first_version) length |= byte(10) << 16 | byte(11) << 24;
  if (length > text.size() - begin) refuse(path, "it ends inside its header");
  std::string_view header = text.substr(begin, length), data = text.substr(begin + length);
  if (header.find("'fortran_order': False") == std::string_view::npos) refuse(path, "it must be in C order");
  std::string_view kind = npy_value(header, "'descr'", '\'');
  std::optional<Shape> shape = npy_shape(npy_value(header, "'shape'", ')'));
  if (!shape) refuse(path, "its shape must be (height, width, channels) or (channels, height, width)");
  bool floats = kind == "<f4";
  if (!floats && kind != "|u1")
    refuse(path,
           "its dtype must be uint8, for pixels (height, width, channels), or float32, for pixel_values "
           "(channels, height, width)");
  DType dtype = floats ? DType::kF32 : DType::kU8;
  if (data.size() < TensorSpec{*shape, dtype}.size_bytes()) refuse(path, "it ends before its last pixel");
  return {copy_of(data, *shape, dtype), floats};
}

}  // namespace

ImageFile read_image(const std::string& path) {
  std::string text = read_file(path, in_quotes(path), "", kMostBytes);
  if (text.size() > 2 && text[0] == 'P' && (text[1] == '6' || text[1] == '5')) return read_pnm(text, path);
  if (std::string_view(text).starts_with("\x93NUMPY")) return read_npy(text, path);
  refuse(path,
         "it is neither a binary PPM or PGM file (P6, P5) nor a NumPy array (.npy); convert it, for example with "
         "ImageMagick: convert picture.jpg -resize 224x224! picture.ppm");
}

}  // namespace fk
