// libFuzzer target: any bytes as a safetensors file.
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/error.h"
#include "models/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  try {
    for (const auto& [name, entry] : fk::parse_safetensors(file, "fuzz")) {
      if (entry.end > size || entry.end - entry.begin != entry.spec.size_bytes()) __builtin_trap();
    }
  } catch (const fk::Error&) {
    return 0;
  }
  return 0;
}
