// Router: finds the handler of a request, and refuses what no handler should see.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http.h"

namespace fk {

struct Route {
  std::string method;
  std::string path;  // ends with *: everything that begins with what is before it
  bool needs_key = false;
  HttpHandler handler;
};

class Router {
 public:
  // `api_key`: empty, or what routes that need a key ask for as "Authorization: Bearer KEY".
  explicit Router(std::string api_key) : api_key_(std::move(api_key)) {}

  void add(std::string method, std::string path, bool needs_key, HttpHandler handler);
  // Answers with an ApiError what has no route or lacks the key, and what a handler throws.
  void handle(IncomingRequest request, const ReplyPtr& reply) const;
  // The route's path, for counting; "other" where there is none.
  std::string_view pattern(std::string_view path) const;

 private:
  const Route& find(const IncomingRequest& request) const;

  std::string api_key_;
  std::vector<Route> routes_;
};

}  // namespace fk
