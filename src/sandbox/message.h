// Messages between a judge and a runner: JSON in one packet, with at most one file descriptor.
//
// Every request contains a nonce that the answer must repeat, so an answer cannot be prepared in advance.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "ops/fields.h"
#include "sandbox/shared_tensors.h"

namespace fk {

struct Message {
  Json body;
  int fd = -1;           // owned by the receiver
  pid_t sender_pid = 0;  // in the receiver's pid namespace; only if the receiver enabled it
};

// False if the other side has closed the channel.
bool send_message(int socket, const Json& body, int fd = -1);

enum class Received : uint8_t { kMessage, kClosed, kTimedOut, kMalformed };
// Waits until the deadline (ns of now_ns(); negative: no deadline).
Received receive_message(int socket, int64_t deadline_ns, Message& message);

// A path may be any bytes, and JSON holds text: bytes that are not UTF-8 would arrive as others.
Json path_to_json(const std::string& path);
std::string path_from_json(const Json& json);
Json fields_to_json(const Fields& fields);
Fields fields_from_json(const Json& json);
Json places_to_json(const std::vector<TensorPlace>& places);
std::vector<TensorPlace> places_from_json(const Json& json);

}  // namespace fk
