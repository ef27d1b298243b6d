// Where verbs print: results to standard output, progress to a terminal and to nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/options.h"

namespace fk {

// The reader of our standard output went away. Ends the command quietly and without failure.
struct OutputClosed {};

// Writes all of `text` at once, unbuffered, so that streamed tokens appear as they come and nothing is left for exit.
// Throws OutputClosed when the pipe is closed and Error when the system refuses for another reason (a full disk).
void print_out(std::string_view text);

// The same for a text that holds words of a user, a file or a candidate: what would control the terminal is escaped.
void print_text(std::string_view text);

// One line on standard error that each show() replaces and the destructor wipes. Silent unless standard error is a
// terminal and --quiet was not given.
class Progress {
 public:
  explicit Progress(const CommonOptions& common);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::string_view text);

 private:
  bool visible_;
  bool shown_ = false;
};

std::string human_bytes(uint64_t size_bytes);  // "2.0 MiB"

}  // namespace fk
