// The parts this build, or this machine, lacks.
#include "cli/missing_parts.h"

#include "core/device_runtime.h"
#include "track/http.h"
#include "track/store.h"
#include "web/web.h"

namespace fk {

std::vector<MissingPart> missing_parts() {
  std::vector<MissingPart> missing;
  if (std::string why = device_missing({DeviceKind::kCuda, 0}); !why.empty()) missing.push_back({"cuda", why});
  if (std::string why = store_unavailable(); !why.empty())
    missing.push_back({"history", why + "; install libsqlite3-dev and build again to keep them in one place"});
  if (std::string why = http_unavailable(); !why.empty()) missing.push_back({"mlflow", why});
  if (!web_unavailable().empty())
    missing.push_back({"dashboard",
                       "its libraries were missing when this was built; install libcpp-httplib-dev, "
                       "node-d3 and libsqlite3-dev, and build again"});
  return missing;
}

}  // namespace fk
