// FolderWatch: reports when files in a folder were written, in place or by renaming another file.
#pragma once

#include <string>

namespace fk {

class FolderWatch {
 public:
  // Watches `folder` and everything below it, also folders created later, even `folder` itself. Throws Error if the
  // system's limit of watches is reached.
  explicit FolderWatch(std::string folder);
  ~FolderWatch();
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

  // Returns when something was written and then nothing more for a short time: an editor may write a file in several
  // steps.
  void wait();
  // Whether something was written since, so that wait() would return at once.
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
