#include "serve/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "serve/api_error.h"

namespace fk {
namespace {

bool matches(const Route& route, std::string_view path) {
  std::string_view pattern = route.path;
  if (!pattern.ends_with('*')) return path == pattern;
  pattern.remove_suffix(1);
  return path.size() > pattern.size() && path.starts_with(pattern);
}

// Takes as long for a key that is nearly right as for any other of its length.
bool same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

bool has_key(std::string_view authorization, std::string_view key) {
  constexpr std::string_view kBearer = "bearer ";  // the name of a scheme may be written in any case
  const std::string_view scheme = authorization.substr(0, kBearer.size());
  const bool bearer = std::equal(scheme.begin(), scheme.end(), kBearer.begin(), kBearer.end(),
                                 [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
  return bearer && same_secret(authorization.substr(kBearer.size()), key);
}

}  // namespace

void Router::add(std::string method, std::string path, bool needs_key, HttpHandler handler) {
  routes_.push_back({std::move(method), std::move(path), needs_key, std::move(handler)});
}

std::string_view Router::pattern(std::string_view path) const {
  for (const Route& route : routes_)
    if (matches(route, path)) return route.path;
  return "other";
}

const Route& Router::find(const IncomingRequest& request) const {
  std::string allowed;
  for (const Route& route : routes_) {
    if (!matches(route, request.path)) continue;
    if (route.method == request.method || (route.method == "GET" && request.method == "HEAD")) return route;
    allowed = route.method;
  }
  if (allowed.empty())
    throw ApiError(404, fmt::format("There is no {}; /openapi.json lists what there is.", request.path), "",
                   "unknown_url");
  throw ApiError(405, fmt::format("{} takes {}, not {}.", request.path, allowed, request.method), "",
                 "method_not_allowed");
}

void Router::handle(IncomingRequest request, const ReplyPtr& reply) const {
  const std::string path = request.path;
  try {
    const Route& route = find(request);
    if (route.needs_key && !api_key_.empty() && !has_key(request.authorization, api_key_))
      throw ApiError(401, "The API key is missing or wrong; send it as 'Authorization: Bearer KEY'.", "",
                     "invalid_api_key");
    // A page of another site can make a browser send a text here, but not JSON without asking first.
    if (route.method == "POST" && !std::string_view(request.content_type).starts_with("application/json"))
      throw ApiError(415, "Send JSON with the header 'Content-Type: application/json'.", "", "unsupported_media_type");
    if (!request.content_encoding.empty() && request.content_encoding != "identity")
      throw ApiError(415, "The body must not be compressed: send it without 'Content-Encoding'.", "",
                     "unsupported_media_type");
    route.handler(std::move(request), reply);
  } catch (const std::exception& e) {
    HttpResponse refusal = ApiError::from(e).response();
    if (refusal.status == 405)
      for (const Route& route : routes_)
        if (matches(route, path)) refusal.headers.emplace_back("Allow", route.method);
    reply->send(std::move(refusal));
  }
}

}  // namespace fk
