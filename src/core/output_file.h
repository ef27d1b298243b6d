// OutputFile: an output file of a command, written atomically under the name that the user gave.
//
// A regular file is written beside its place and renamed into it at the end. Symbolic links are followed first, so that
// a link stays a link. Pipes, terminals and devices such as /dev/null cannot be replaced and are written directly.
#pragma once

#include <string>
#include <string_view>

#include "core/undo_at_end.h"

namespace fk {

class OutputFile {
 public:
  // Throws Error where the name cannot be written: a folder, a socket, a disk, a folder that does not exist.
  explicit OutputFile(std::string path);
  ~OutputFile();  // without finish(), nothing is left of a regular file
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  // The file takes its name. `durable`: its bytes are on the disk before that.
  void finish(bool durable = false);

 private:
  void open_beside(const std::string& target);
  [[noreturn]] void refuse(int error);
  void close_and_remove();

  std::string path_;       // as given, for messages
  std::string target_;     // where symbolic links end
  std::string temporary_;  // empty where the file is written directly
  int file_ = -1;
  UndoAtEnd remove_;
};

// The whole file at once.
void write_file(const std::string& path, std::string_view bytes, bool durable = false);

// Throws the Error that OutputFile would throw for the kind of file that is there now, before the work is done.
void check_output_path(const std::string& path);

// Whether `path` exists and is not a regular file: a pipe, a terminal, a device, a folder. No file can be kept beside
// it, and it cannot be read back.
bool is_special_file(const std::string& path);

}  // namespace fk
