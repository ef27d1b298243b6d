// Device: the CPU or one of the GPUs, where a tensor is stored.
#pragma once

#include <cstdint>
#include <string>

namespace fk {

enum class DeviceKind : uint8_t { kCpu, kCuda };

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int8_t index = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr Device kCpu{DeviceKind::kCpu, 0};

inline std::string device_name(Device d) {
  return d.kind == DeviceKind::kCpu ? "cpu" : "cuda:" + std::to_string(static_cast<int>(d.index));
}

}  // namespace fk
