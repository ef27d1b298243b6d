// The parts this build lacks.
#include "cli/missing_parts.h"

#include "track/http.h"
#include "track/store.h"

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
  return parts;
}

}  // namespace fk
