// Output of verbs: results to standard output, progress only to a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/options.h"

namespace fk {

// Standard output was closed by its reader. Ends the command quietly, with exit code 0.
struct OutputClosed {};

// Writes all of `text` at once, unbuffered, so that streamed tokens appear at once and nothing is left in a buffer at
// exit. Throws OutputClosed if the pipe is closed and Error if writing fails for another reason (a full disk).
void print_out(std::string_view text);

// CSV, exactly for files and pipes; on a terminal control characters are escaped.
void print_csv(std::string_view text);

// As print_out, for text from a user, a file or a candidate: control characters are escaped.
void print_text(std::string_view text);

// One line on standard error that each show() replaces, and that results and the destructor erase. Silent unless
// standard error is a terminal and --quiet was not given.
class Progress {
 public:
  explicit Progress(const CommonOptions& common);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::string_view text);

 private:
  bool visible_;
};

std::string human_bytes(uint64_t size_bytes);  // "2.0 MiB"

}  // namespace fk
