// HttpExchange: one request, and what its handler has written of the answer. The connection sends it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "serve/http.h"

namespace fk {

class HttpExchange final : public Reply {
 public:
  // `wake` is called whenever there is something to do for the connection, with true when its client is gone. A client
  // that leaves more than max_unsent_bytes of a stream unread is treated as gone.
  HttpExchange(std::function<void(bool gone)> wake, size_t max_unsent_bytes)
      : wake_(std::move(wake)), max_unsent_bytes_(max_unsent_bytes) {}

  void send(HttpResponse response) override;
  void begin_stream(HttpResponse response) override;
  void write(std::string_view text) override;
  void finish() override;
  void on_client_gone(std::function<void()> callback) override;
  bool client_gone() const override { return gone_; }

  // The client left, or does not read.
  void leave();
  // Everything is sent. The handler's callback may own the handler's state, so it goes.
  void complete();

  std::string take() { return std::exchange(unsent_, {}); }
  bool has_text() const { return !unsent_.empty(); }
  bool finished() const { return finished_; }
  bool begun() const { return begun_; }
  bool is_complete() const { return complete_; }

  bool speaks_http_1_1 = true, keep_alive = true;
  bool without_body = false;  // HEAD

 private:
  void write_head(const HttpResponse& response, std::string_view length);

  std::function<void(bool gone)> wake_;
  std::function<void()> callback_;
  size_t max_unsent_bytes_;
  std::string unsent_;
  bool begun_ = false, chunked_ = false, finished_ = false, gone_ = false, complete_ = false;
};

}  // namespace fk
