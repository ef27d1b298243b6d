// The parts this build, or this machine, lacks.
#include "cli/missing_parts.h"

#include "core/device_runtime.h"

namespace fk {

std::vector<MissingPart> missing_parts() {
  std::vector<MissingPart> missing;
  if (std::string why = device_missing({DeviceKind::kCuda, 0}); !why.empty()) missing.push_back({"cuda", why});
  return missing;
}

}  // namespace fk
