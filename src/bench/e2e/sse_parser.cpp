#include "bench/e2e/sse_parser.h"

namespace fk {

void SseParser::feed(std::string_view piece, const Sink& sink) {
  for (char c : piece) {
    bool second_of_pair = after_return_ && c == '\n';
    after_return_ = c == '\r';
    if (second_of_pair) continue;
    if (c == '\n' || c == '\r')
      end_line(sink);
    else
      line_ += c;
  }
}

void SseParser::end_line(const Sink& sink) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::string_view line = line_;
  if (at_start_ && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  at_start_ = false;
  if (line.empty()) {
    if (has_data_) sink(data_);
    data_.clear();
    has_data_ = false;
  } else if (std::string_view name = line.substr(0, line.find(':')); name == "data") {
    std::string_view value = line.size() > name.size() ? line.substr(name.size() + 1) : std::string_view();
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  }  // other fields, and comments, which begin with a colon, are not used
  line_.clear();
}

}  // namespace fk
