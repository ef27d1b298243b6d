// SseParser: the events of a text/event-stream, from pieces that end anywhere, also inside a line or a character.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace fk {

class SseParser {
 public:
  // Called with the data of every complete event: its data lines, joined by newlines.
  using Sink = std::function<void(std::string_view data)>;

  void feed(std::string_view piece, const Sink& sink);
  // True in the middle of an event: the stream was cut off.
  bool incomplete() const { return !line_.empty() || has_data_; }

 private:
  void end_line(const Sink& sink);

  std::string line_, data_;
  bool has_data_ = false;
  bool after_return_ = false;  // the last byte was \r: a \n now is the same end of line
  bool at_start_ = true;       // of the stream, where a byte order mark may be
};

}  // namespace fk
