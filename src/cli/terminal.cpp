#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace fk {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

TextStyle style_of(int file) {
  TextStyle style;
  bool terminal = isatty(file) != 0;
  style.colour = terminal && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
  std::string_view wanted = variable("COLUMNS");
  auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), style.columns);
  if (error == std::errc() && end == wanted.data() + wanted.size() && style.columns > 0) return style;
  winsize size{};
  style.columns = terminal && ioctl(file, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
  return style;
}

}  // namespace fk
