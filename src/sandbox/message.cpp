#include "sandbox/message.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "measure/timer.h"

namespace fk {
namespace {
constexpr size_t kLargestMessage = size_t{4} << 20;
}

bool send_message(int socket, const Json& body, int fd) {
  std::string text = body.dump(-1, ' ', false, Json::error_handler_t::replace);  // may contain invalid UTF-8
  if (text.size() > kLargestMessage) throw Error("A message to a runner has {} bytes, too many.", text.size());
  iovec part{text.data(), text.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  if (fd >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(text.size());
}

Received receive_message(int socket, int64_t deadline_ns, Message& message) {
  pollfd waiting{socket, POLLIN, 0};
  for (;;) {
    int timeout_ms = -1;
    if (deadline_ns >= 0) {
      int64_t left = deadline_ns - now_ns();
      timeout_ms = left <= 0 ? 0 : static_cast<int>(std::min<int64_t>(left / 1000000 + 1, 1 << 30));
    }
    int ready = poll(&waiting, 1, timeout_ms);
    if (ready > 0) break;
    if (ready == 0 && timeout_ms == 0) return Received::kTimedOut;
    if (ready < 0 && errno != EINTR) return Received::kClosed;
  }
  static thread_local std::string text;
  text.resize(kLargestMessage);
  iovec part{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, 4 * CMSG_SPACE(sizeof(ucred))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  if (got <= 0) return Received::kClosed;
  message = {};
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET) continue;
    if (c->cmsg_type == SCM_RIGHTS) {
      size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
        if (message.fd < 0)
          message.fd = fd;
        else
          close(fd);
      }
    } else if (c->cmsg_type == SCM_CREDENTIALS) {
      ucred who;
      std::memcpy(&who, CMSG_DATA(c), sizeof who);
      message.sender_pid = who.pid;
    }
  }
  try {
    message.body = parse_json(std::string_view(text.data(), static_cast<size_t>(got)), "a runner's message");
  } catch (const Error&) {
    if (message.fd >= 0) close(message.fd);
    message.fd = -1;
    return Received::kMalformed;
  }
  return Received::kMessage;
}

Json path_to_json(const std::string& path) { return std::vector<uint8_t>(path.begin(), path.end()); }

std::string path_from_json(const Json& json) {
  const auto bytes = json.get<std::vector<uint8_t>>();
  return {bytes.begin(), bytes.end()};
}

Json fields_to_json(const Fields& fields) {
  Json object = Json::object();
  for (const Field& f : fields)
    object[f.name] = std::visit(
        [](const auto& value) -> Json {
          if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, Fields>)
            return fields_to_json(value);
          else
            return value;
        },
        f.value);
  return object;
}

Fields fields_from_json(const Json& json) {
  Fields fields;
  for (const auto& [name, value] : json.items()) {
    FieldValue v;
    if (value.is_boolean())
      v = value.get<bool>();
    else if (value.is_number_integer())
      v = value.get<int64_t>();
    else if (value.is_number())
      v = value.get<double>();
    else if (value.is_string())
      v = value.get<std::string>();
    else if (value.is_array())
      v = value.get<std::vector<int64_t>>();
    else if (value.is_object())
      v = fields_from_json(value);
    else
      throw Error("The constructor argument '{}' has no value.", name);
    fields.push_back({name, std::move(v)});
  }
  return fields;
}

Json places_to_json(const std::vector<TensorPlace>& places) {
  Json list = Json::array();
  for (const TensorPlace& p : places) {
    auto extents = p.spec.shape.extents();
    list.push_back({p.extent_offset, p.extent_bytes, p.data_offset, dtype_name(p.spec.dtype),
                    std::vector<int64_t>(extents.begin(), extents.end()), p.row_gap});
  }
  return list;
}

std::vector<TensorPlace> places_from_json(const Json& json) {
  std::vector<TensorPlace> places;
  for (const Json& p : json) {
    auto extents = p.at(4).get<std::vector<int64_t>>();
    places.push_back({p.at(0).get<size_t>(),
                      p.at(1).get<size_t>(),
                      p.at(2).get<size_t>(),
                      {Shape(extents), dtype_from_name(p.at(3).get<std::string>()).value()},
                      p.at(5).get<int64_t>()});
  }
  return places;
}

}  // namespace fk
