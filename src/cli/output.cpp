// Unbuffered writes that survive a closed pipe.
#include "cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "cli/terminal.h"
#include "cli/text_width.h"
#include "core/error.h"
#include "core/printable.h"

namespace fk {
namespace {

// Returns 0, or the errno of the write that failed.
int write_all(int file, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

}  // namespace

namespace {

std::atomic<bool> progress_is_shown = false;

void erase_progress() {
  if (progress_is_shown.exchange(false)) write_all(STDERR_FILENO, "\r\033[K");
}

}  // namespace

void print_out(std::string_view text) {
  erase_progress();
  int error = write_all(STDOUT_FILENO, text);
  if (error == EPIPE) throw OutputClosed{};
  if (error != 0)
    throw Error("cannot write to standard output ({}); {}", strerror(error),
                error == EBADF ? "it is closed: send it to a file or a pipe" : "free its disk or send it elsewhere");
}

void print_csv(std::string_view text) {
  print_out(isatty(STDOUT_FILENO) != 0 ? printable_lines(text, "\r") : std::string(text));
}

void print_text(std::string_view text) { print_out(printable_lines(text)); }

Progress::Progress(const CommonOptions& common) : visible_(!common.quiet && isatty(STDERR_FILENO)) {}

Progress::~Progress() { erase_progress(); }

namespace {

// A wrapped line cannot be erased as one line, so the text is cut to fit. The last column stays empty: some terminals
// wrap when it is filled.
std::string fitting(std::string_view text) {
  size_t columns = style_of(STDERR_FILENO).columns;
  std::string shown = printable(text);
  return columns == 0 ? shown : std::string(first_columns(shown, columns - 1));
}

}  // namespace

void Progress::show(std::string_view text) {
  if (!visible_) return;
  progress_is_shown = true;
  write_all(STDERR_FILENO, fmt::format("\r\033[K{}", fitting(text)));
}

std::string human_bytes(uint64_t size_bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (size_bytes < 1024) return fmt::format("{} B", size_bytes);
  double value = static_cast<double>(size_bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1023.95 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace fk
