// Replaces track/curl/ in a build without libcurl.
#include "track/http.h"

namespace fk {

std::string http_unavailable() { return "this build has no libcurl; install libcurl4-openssl-dev and build again"; }

Result<HttpReply> http_send(const HttpRequest&) { return Failed{http_unavailable()}; }

}  // namespace fk
