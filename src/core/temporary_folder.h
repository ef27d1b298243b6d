// TemporaryFolder: a folder of this process, removed with all that is in it, also where a signal ends the program.
#pragma once

#include <string>

#include "core/undo_at_end.h"

namespace fk {

class TemporaryFolder {
 public:
  TemporaryFolder();  // throws Error where none can be made
  ~TemporaryFolder() { remove_.undo(); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  UndoAtEnd remove_;
};

}  // namespace fk
