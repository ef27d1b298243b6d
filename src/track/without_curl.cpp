// Replaces track/curl/ in a build without libcurl.
#include "track/http.h"

namespace fk {

std::string http_unavailable() { return "this build has no libcurl (libcurl4-openssl-dev), so it cannot reach MLflow"; }

Result<HttpReply> http_send(const HttpRequest&) { return Failed{http_unavailable()}; }

}  // namespace fk
