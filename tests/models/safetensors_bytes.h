// Bytes of safetensors files, built from the format's description rather than by our own writer.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

// Eight bytes of little-endian header length, the header, the data.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i) & 0xff);
  return file.append(header).append(data);
}

struct TensorBytes {
  std::string name;
  std::string dtype;  // as the format spells it: "F32"
  std::string shape;  // "[2, 3]"
  std::string data;
};

inline std::string safetensors_bytes(const std::vector<TensorBytes>& tensors) {
  std::string header = "{", data;
  for (const TensorBytes& t : tensors) {
    if (header.size() > 1) header += ',';
    header += "\"" + t.name + "\":{\"dtype\":\"" + t.dtype + "\",\"shape\":" + t.shape + ",\"data_offsets\":[" +
              std::to_string(data.size()) + "," + std::to_string(data.size() + t.data.size()) + "]}";
    data += t.data;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');  // writers pad so that the data starts aligned
  return safetensors_bytes(header, data);
}

inline std::string f32_bytes(const std::vector<float>& values) {
  std::string result;
  for (float value : values)
    for (int i = 0; i < 4; ++i) result += static_cast<char>(std::bit_cast<uint32_t>(value) >> (8 * i) & 0xff);
  return result;
}

inline std::string u16_bytes(const std::vector<uint16_t>& values) {
  std::string result;
  for (uint16_t value : values) result.append({static_cast<char>(value & 0xff), static_cast<char>(value >> 8)});
  return result;
}

}  // namespace fk
