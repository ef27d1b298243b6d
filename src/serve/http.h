// An HTTP request and its answer, without the network: what handlers read and write. serve/http_server.h connects them
// to sockets, tests to scripts.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/access_log.h"

namespace fk {

struct IncomingRequest {
  std::string method;
  std::string path;   // without the query, decoded
  std::string query;  // after the ?, as sent
  std::string authorization;
  std::string content_type;
  std::string content_encoding;
  std::string body = {};
  std::string client;  // address
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// The answer to one request: send() once, or begin_stream(), write() as often as needed, and finish(). Used on the
// server's thread only; it may be kept for as long as the answer takes. Calls after the client has left do nothing.
class Reply {
 public:
  virtual ~Reply() = default;

  virtual void send(HttpResponse response) = 0;
  virtual void begin_stream(HttpResponse head) = 0;  // without the body
  virtual void write(std::string_view text) = 0;
  virtual void finish() = 0;

  // Called once if the client leaves, or does not read what is written, before the answer is complete.
  virtual void on_client_gone(std::function<void()> callback) = 0;
  virtual bool client_gone() const = 0;

  AccessRecord access;  // handlers add what only they know
};

using ReplyPtr = std::shared_ptr<Reply>;
using HttpHandler = std::function<void(IncomingRequest request, ReplyPtr reply)>;

// "%2F" becomes "/". What is not valid stays as it is.
std::string percent_decoded(std::string_view text);
// "Not Found" of 404.
std::string_view reason_phrase(int status);

}  // namespace fk
