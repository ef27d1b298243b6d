// A blocking HTTP client on a bare socket, which can also do what no library does: send half of a request, or not read.
#pragma once

#include <string>
#include <string_view>

#include "core/json.h"

namespace fk {

struct Answer {
  int status = 0;      // 0: the server closed the connection without an answer
  std::string header;  // with its first line
  std::string body;    // chunks joined

  Json json() const { return Json::parse(body); }
  std::string field(std::string_view name) const;  // of the header; empty if there is none
};

class TestClient {
 public:
  explicit TestClient(int port);
  ~TestClient() { close(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  void send(std::string_view bytes);
  void close();
  void close_sending();  // the client's side only
  void shrink_receive_buffer();

  Answer read_answer();
  std::string read_header();                     // of an answer whose body is read later
  std::string read_until(std::string_view end);  // everything up to and with `end`; less where the connection ends
  bool at_end();                                 // waits for the server to close
  bool open() const { return socket_ >= 0; }

 private:
  bool more();

  int socket_ = -1;
  std::string buffer_;
};

std::string get_text(std::string_view path, std::string_view more_header = "");
std::string post_text(std::string_view path, std::string_view body, std::string_view more_header = "");

// One request on a connection of its own.
Answer ask(int port, std::string_view request);
Answer post(int port, std::string_view path, const Json& body);
Answer get(int port, std::string_view path);

}  // namespace fk
