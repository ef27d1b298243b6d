// The parts this build lacks.
#include "cli/missing_parts.h"

#include "track/http.h"
#include "track/store.h"
#include "web/web.h"

namespace fk {

MissingPart cuda_backend() {
  return {"cuda", "this version has no CUDA backend", "run on the CPU with `--device cpu`, the default"};
}

std::vector<MissingPart> missing_parts() {
  std::vector<MissingPart> parts = {cuda_backend()};
  if (std::string why = store_unavailable(); !why.empty())
    parts.push_back({"history", why, "install libsqlite3-dev and build again to keep them in one place"});
  if (std::string why = http_unavailable(); !why.empty())
    parts.push_back({"mlflow", why, "install libcurl4-openssl-dev and build again"});
  if (!web_unavailable().empty())
    parts.push_back({"dashboard", "what its pages need was not there when this was built",
                     "install libcpp-httplib-dev, node-d3 and libsqlite3-dev, and build again"});
  return parts;
}

}  // namespace fk
