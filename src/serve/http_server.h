// HttpServer: HTTP/1.1 on one thread. A connection is a coroutine, so a thousand streams cost no thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "serve/access_log.h"
#include "serve/http.h"
#include "serve/mailbox.h"

namespace fk {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8000;  // 0: a free one
  uint64_t max_body_bytes = uint64_t{32} << 20;
  // A client that does not read: what is written and not yet sent.
  size_t max_unsent_bytes = size_t{1} << 20;
  std::chrono::milliseconds idle_timeout{75'000};    // between two requests of a connection
  std::chrono::milliseconds header_timeout{10'000};  // from the first byte of a request to the end of its header
  std::chrono::milliseconds body_timeout{60'000};
  std::chrono::milliseconds write_timeout{30'000};  // to take the next 64 KiB, or what there is
};

class HttpServer {
 public:
  // Listens. Throws Error where that is not possible. `handler` is called on the thread of run().
  // `ended` is called when an answer is sent, or its client has left.
  HttpServer(HttpOptions options, HttpHandler handler, std::function<void(const AccessRecord&)> ended);
  ~HttpServer();
  // Throws the Error that the constructor would throw now.
  static void check_address(const HttpOptions& options);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  // Other threads hand their results to the server's through it; it may outlive the server.
  const std::shared_ptr<Mailbox>& mailbox() const;

  // Answers until stop().
  void run();

  // On the thread of run() only (use the mailbox from others).
  void call_after(std::chrono::milliseconds delay, std::function<void()> job);
  void on_signals(std::function<void(int signal)> job);  // SIGINT and SIGTERM, each time
  // Accepts no more, closes idle connections, and ends run() when all answers are written or after `patience`.
  void stop(std::chrono::milliseconds patience);
  int64_t connections() const;

 private:
  friend class HttpConnection;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fk
