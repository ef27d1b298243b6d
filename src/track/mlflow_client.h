// Requests to an MLflow server's REST API, and text in the form it accepts.
#pragma once

#include <string>
#include <string_view>

#include "core/json.h"
#include "track/mlflow.h"

namespace fk {

std::string cut_text(const std::string& text, size_t most);  // at most so many bytes, without splitting a character
// Percent-encoded for an address.
std::string url_encoded(std::string_view text, bool keep_slashes);

class MlflowClient {
 public:
  explicit MlflowClient(const MlflowServer& server) : server_(server) {}

  // A reply that is not 2xx is an Error with the server's message, unless `absent` is given and the server replied "not
  // found".
  Json call(const std::string& method, const std::string& path, const Json& body, bool* absent = nullptr) const;
  void put_artifact(const std::string& path, const std::string& bytes) const;  // through the server's proxy

  HttpRequest make(const std::string& method, const std::string& path) const;
  HttpReply send(const HttpRequest& request) const;

 private:
  const MlflowServer& server_;
};

}  // namespace fk
