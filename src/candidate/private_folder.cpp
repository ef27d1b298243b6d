#include "candidate/private_folder.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "core/error.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

// Removes folders of programs that were killed. Only empty and old ones: a process that is unknown here may run in
// another container with the same /tmp.
void remove_stale_folders(const fs::path& tmp) {
  constexpr std::chrono::minutes kOld{10};
  auto now = fs::file_time_type::clock::now();
  std::error_code error;
  fs::directory_iterator entry(tmp, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    int pid = 0, matched = 0;
    std::string name = entry->path().filename().string();
    if (sscanf(name.c_str(), "fastkernels-runner-%d-%n", &pid, &matched) != 1 || matched == 0) continue;
    std::error_code gone;
    bool old = now - entry->last_write_time(gone) > kOld;
    if (!gone && old && kill(pid, 0) != 0 && errno == ESRCH) rmdir(entry->path().c_str());
  }
}

}  // namespace

std::string make_private_tmp() {
  static const bool once = (remove_stale_folders(fs::temp_directory_path()), true);
  static_cast<void>(once);
  std::string pattern = (fs::temp_directory_path() / fmt::format("fastkernels-runner-{}-XXXXXX", getpid())).string();
  if (mkdtemp(pattern.data()) == nullptr)
    throw Error("No folder could be made under {}.", fs::temp_directory_path().string());
  return pattern;
}

}  // namespace fk
