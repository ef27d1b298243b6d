// ApiError: a request that is refused, in the form of OpenAI's API.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "serve/http.h"

namespace fk {

class ApiError : public std::exception {
 public:
  // `param`: the field of the request that is wrong; `code`: a word for programs, as "model_not_found".
  ApiError(int status, std::string message, std::string param = "", std::string code = "")
      : status_(status), message_(std::move(message)), param_(std::move(param)), code_(std::move(code)) {}

  int status() const { return status_; }
  const char* what() const noexcept override { return message_.c_str(); }

  // {"error": {"message": ..., "type": ..., "param": ..., "code": ...}}
  std::string json() const;
  // With Retry-After where a later try may succeed.
  HttpResponse response() const;

  // What another exception means to a client: a wrong request, a full queue, or a fault of the server.
  static ApiError from(const std::exception& e);

 private:
  int status_;
  std::string message_, param_, code_;
};

}  // namespace fk
