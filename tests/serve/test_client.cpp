#include "tests/serve/test_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace fk {

std::string Answer::field(std::string_view name) const {
  for (size_t at = header.find("\r\n"); at != std::string::npos; at = header.find("\r\n", at + 2)) {
    std::string line = header.substr(at + 2, header.find("\r\n", at + 2) - at - 2);
    if (line.size() > name.size() && line[name.size()] == ':' &&
        strncasecmp(line.data(), name.data(), name.size()) == 0)
      return line.substr(std::min(line.size(), line.find_first_not_of(' ', name.size() + 1)));
  }
  return "";
}

TestClient::TestClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // A test that waits in vain ends.
  timeval limit{300, 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) close();
}

void TestClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void TestClient::close_sending() { ::shutdown(socket_, SHUT_WR); }

void TestClient::shrink_receive_buffer() {
  int size = 4096;
  setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
}

void TestClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the server has closed; what it answered is read later
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

bool TestClient::more() {
  char bytes[16 * 1024];
  ssize_t got = 0;
  do {
    got = ::recv(socket_, bytes, sizeof bytes, 0);
  } while (got < 0 && errno == EINTR);  // of a socket with a time limit, when the process was stopped and continued
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) ADD_FAILURE() << "no answer within five minutes";
  if (got <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(got));
  return true;
}

std::string TestClient::read_until(std::string_view end) {
  size_t at = 0;
  while ((at = buffer_.find(end)) == std::string::npos)
    if (!more()) return std::exchange(buffer_, {});
  std::string found = buffer_.substr(0, at + end.size());
  buffer_.erase(0, at + end.size());
  return found;
}

std::string TestClient::read_header() { return read_until("\r\n\r\n"); }

bool TestClient::at_end() {
  while (more()) {
  }
  return true;
}

Answer TestClient::read_answer() {
  Answer answer;
  answer.header = read_header();
  if (answer.header.size() < 12) return answer;
  answer.status = std::atoi(answer.header.c_str() + 9);
  if (answer.status == 100) return answer;
  if (answer.field("Transfer-Encoding") == "chunked") {
    while (true) {
      std::string line = read_until("\r\n");
      size_t size = std::strtoul(line.c_str(), nullptr, 16);
      while (buffer_.size() < size + 2)
        if (!more()) return answer;
      answer.body += buffer_.substr(0, size);
      buffer_.erase(0, size + 2);
      if (size == 0) return answer;
    }
  }
  std::string length = answer.field("Content-Length");
  if (length.empty()) {
    while (more()) {
    }
    answer.body = std::exchange(buffer_, {});
    return answer;
  }
  size_t size = std::strtoul(length.c_str(), nullptr, 10);
  while (buffer_.size() < size)
    if (!more()) break;
  answer.body = buffer_.substr(0, size);
  buffer_.erase(0, std::min(size, buffer_.size()));
  return answer;
}

std::string get_text(std::string_view path, std::string_view more_header) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", path, more_header);
}
std::string post_text(std::string_view path, std::string_view body, std::string_view more_header) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}\r\n{}", path,
      body.size(), more_header, body);
}

Answer ask(int port, std::string_view request) {
  TestClient client(port);
  client.send(request);
  return client.read_answer();
}
Answer post(int port, std::string_view path, const Json& body) { return ask(port, post_text(path, body.dump())); }
Answer get(int port, std::string_view path) { return ask(port, get_text(path)); }

}  // namespace fk
