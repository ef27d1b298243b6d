// FolderWatch: tells when files under a folder were written, however an editor does it: in place, or under another name
// that then replaces the file.
#pragma once

#include <string>

namespace fk {

class FolderWatch {
 public:
  // Of `folder` and everything below it; folders made later are watched too, also `folder` itself where it is not there
  // yet. Throws Error where the system watches no more folders.
  explicit FolderWatch(std::string folder);
  ~FolderWatch();
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

  // Returns when something was written, and then nothing for a short while: an editor may write a file in several
  // steps.
  void wait();
  // Whether something was written since; what wait() would return for at once.
  bool changed();

 private:
  void watch_all();
  void watch(const std::string& folder);
  bool read_events();  // whether one of them counts

  const std::string folder_;
  int file_ = -1;
  bool changed_ = false;
};

}  // namespace fk
