// Server-sent events: the frames of a stream.
#pragma once

#include <string>
#include <string_view>

namespace fk {

inline constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";
inline constexpr std::string_view kStreamEnd = "data: [DONE]\n\n";

// `data` has no line ends: JSON in one line.
inline std::string sse_event(std::string_view data) {
  std::string event = "data: ";
  event += data;
  event += "\n\n";
  return event;
}

}  // namespace fk
