#include "serve/api_error.h"

#include "core/error.h"
#include "core/json.h"
#include "engine/engine.h"

namespace fk {
namespace {

const char* error_type(int status) {
  if (status == 401) return "authentication_error";
  if (status == 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

}  // namespace

std::string ApiError::json() const {
  auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return dump_json(
      {{"error",
        {{"message", message_}, {"type", error_type(status_)}, {"param", or_null(param_)}, {"code", or_null(code_)}}}},
      -1);
}

HttpResponse ApiError::response() const {
  HttpResponse response{.status = status_, .body = json()};
  if (status_ == 429 || status_ == 503) response.headers.emplace_back("Retry-After", "1");
  if (status_ == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

ApiError ApiError::from(const std::exception& e) {
  if (const auto* own = dynamic_cast<const ApiError*>(&e)) return *own;
  if (dynamic_cast<const QueueFull*>(&e) != nullptr) return {429, e.what(), "", "queue_full"};
  if (dynamic_cast<const UsageError*>(&e) != nullptr) return {400, e.what()};
  return {500, e.what()};
}

}  // namespace fk
