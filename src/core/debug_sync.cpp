#include "core/debug_sync.h"

#include <cstdlib>
#include <string_view>

namespace fk {

bool debug_sync() {
  static const bool on = [] {
    const char* value = std::getenv("FASTKERNELS_DEBUG_SYNC");
    return value != nullptr && *value != '\0' && std::string_view(value) != "0";
  }();
  return on;
}

}  // namespace fk
