// Bytes of GGUF files, built from the format's description.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

class GgufBytes {
 public:
  explicit GgufBytes(std::string_view architecture) { text("general.architecture", architecture); }

  GgufBytes& integer(std::string_view key, uint32_t value) { return pair(key, 4, raw(value)); }
  GgufBytes& real(std::string_view key, float value) { return pair(key, 6, raw(value)); }
  GgufBytes& boolean(std::string_view key, bool value) { return pair(key, 7, std::string(1, value ? '\1' : '\0')); }
  GgufBytes& text(std::string_view key, std::string_view value) { return pair(key, 8, string(value)); }
  GgufBytes& texts(std::string_view key, const std::vector<std::string>& values) {
    std::string list = raw(uint32_t{8}) + raw(uint64_t{values.size()});
    for (const std::string& value : values) list += string(value);
    return pair(key, 9, list);
  }
  GgufBytes& reals(std::string_view key, const std::vector<float>& values) {
    std::string list = raw(uint32_t{6}) + raw(uint64_t{values.size()});
    for (float value : values) list += raw(value);
    return pair(key, 9, list);
  }
  GgufBytes& integers(std::string_view key, const std::vector<int32_t>& values) {
    std::string list = raw(uint32_t{5}) + raw(uint64_t{values.size()});
    for (int32_t value : values) list += raw(value);
    return pair(key, 9, list);
  }

  // Extents as the file has them, the innermost first.
  GgufBytes& tensor(std::string_view name, const std::vector<uint64_t>& extents, uint32_t type, std::string_view data) {
    while (data_.size() % 32 != 0) data_ += '\0';
    tensors_ += string(name) + raw(static_cast<uint32_t>(extents.size()));
    for (uint64_t extent : extents) tensors_ += raw(extent);
    tensors_ += raw(type) + raw(uint64_t{data_.size()});
    data_ += data;
    ++num_tensors_;
    return *this;
  }

  std::string bytes(uint32_t version = 3) const {
    std::string file = "GGUF" + raw(version) + raw(num_tensors_) + raw(num_pairs_) + pairs_ + tensors_;
    while (file.size() % 32 != 0) file += '\0';
    return file + data_;
  }

  template <class T>
  static std::string raw(T value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  }
  static std::string string(std::string_view text) { return raw(uint64_t{text.size()}).append(text); }

 private:
  GgufBytes& pair(std::string_view key, uint32_t type, const std::string& value) {
    pairs_ += string(key) + raw(type) + value;
    ++num_pairs_;
    return *this;
  }

  std::string pairs_, tensors_, data_;
  uint64_t num_pairs_ = 0, num_tensors_ = 0;
};

}  // namespace fk
