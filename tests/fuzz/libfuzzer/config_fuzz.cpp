// libFuzzer target: any text as config.json and as generation_config.json.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/error.h"
#include "core/json.h"
#include "models/config.h"
#include "models/generation_defaults.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    fk::Json json = fk::parse_json(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    fk::generation_defaults_from_json(json, "fuzz");
    fk::config_from_json(json, "fuzz");
  } catch (const fk::Error&) {
    return 0;
  }
  return 0;
}
