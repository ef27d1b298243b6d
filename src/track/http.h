// One HTTP request, for talking to an MLflow server. track/curl/ implements it; a build without libcurl cannot.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "core/result.h"

namespace fk {

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<std::string> headers = {};
  std::string body = {};
  std::string user_password = {};  // "user:password" for basic authentication
  int timeout_ms = 30'000;
  const std::atomic<bool>* cancel = nullptr;  // cancelled when it becomes true
};

struct HttpReply {
  int status = 0;
  std::string body;
};

std::string http_unavailable();  // empty, or why there can be no request here and what to install
// A reply of any status; a failure if there was no reply.
Result<HttpReply> http_send(const HttpRequest& request);

}  // namespace fk
