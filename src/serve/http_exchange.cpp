#include "serve/http_exchange.h"

#include <fmt/format.h>

#include <iterator>

namespace fk {

void HttpExchange::send(HttpResponse response) {
  if (begun_ || gone_) return;
  write_head(response, fmt::format("Content-Length: {}\r\n", response.body.size()));
  if (!without_body) unsent_ += response.body;
  finish();
}

void HttpExchange::begin_stream(HttpResponse response) {
  if (begun_ || gone_) return;
  chunked_ = speaks_http_1_1;
  if (!chunked_) keep_alive = false;  // the end of the connection is the end of the answer
  write_head(response, chunked_ ? "Transfer-Encoding: chunked\r\n" : "");
  wake_(false);
}

void HttpExchange::write(std::string_view text) {
  if (finished_ || gone_ || text.empty() || without_body) return;
  // Before the text is added: a single large event, as an echoed prompt, is no sign of a slow client.
  if (unsent_.size() > max_unsent_bytes_) return leave();
  if (chunked_)
    fmt::format_to(std::back_inserter(unsent_), "{:x}\r\n{}\r\n", text.size(), text);
  else
    unsent_ += text;
  wake_(false);
}

void HttpExchange::finish() {
  if (finished_ || gone_) return;
  finished_ = true;
  if (chunked_ && !without_body) unsent_ += "0\r\n\r\n";
  wake_(false);
}

void HttpExchange::on_client_gone(std::function<void()> callback) {
  if (gone_) return callback();
  callback_ = std::move(callback);
}

void HttpExchange::leave() {
  if (gone_ || complete_) return;
  gone_ = true;
  unsent_.clear();
  wake_(true);
  if (auto callback = std::exchange(callback_, nullptr)) callback();
}

void HttpExchange::complete() {
  complete_ = true;
  callback_ = nullptr;
}

void HttpExchange::write_head(const HttpResponse& response, std::string_view length) {
  begun_ = true;
  access.status = response.status;
  unsent_ = fmt::format("HTTP/1.1 {} {}\r\nServer: fastkernels\r\nContent-Type: {}\r\n{}", response.status,
                        reason_phrase(response.status), response.type, length);
  for (const auto& [name, value] : response.headers) unsent_ += fmt::format("{}: {}\r\n", name, value);
  if (!keep_alive)
    unsent_ += "Connection: close\r\n";
  else if (!speaks_http_1_1)
    unsent_ += "Connection: keep-alive\r\n";
  unsent_ += "\r\n";
}

}  // namespace fk
