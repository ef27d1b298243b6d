#include "cli/folder_watch.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "core/error.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

// Long enough for an editor that writes, renames and sets permissions one after the other; too short for users to
// notice.
constexpr int kQuietMs = 60;
constexpr uint32_t kEvents = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_DELETE_SELF;

// Backups, swap files and hidden files of editors: saving a source makes them too.
bool of_an_editor(std::string_view name) {
  return name.empty() || name.front() == '.' || name.front() == '#' || name.back() == '~' || name == "4913" ||
         name.ends_with(".swp") || name.ends_with(".tmp");
}

fs::path nearest_folder(fs::path folder) {
  std::error_code error;
  while (!fs::is_directory(folder, error)) {
    fs::path above = folder.parent_path();
    if (above == folder) break;
    folder = above.empty() ? "." : above;
  }
  return folder;
}

}  // namespace

FolderWatch::FolderWatch(std::string folder)
    : folder_(std::move(folder)), file_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  if (file_ < 0)
    throw Error("Files cannot be watched ({}); raise fs.inotify.max_user_instances, or run without --watch.",
                strerror(errno));
  watch_all();
}

FolderWatch::~FolderWatch() { close(file_); }

void FolderWatch::watch_all() {
  // If a folder does not exist yet, its nearest existing parent is watched. A folder may be created between the check
  // and the watch, so the check is repeated.
  for (fs::path nearest, before; (nearest = nearest_folder(folder_)) != before; before = nearest)
    watch(nearest.string());
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder_, fs::directory_options::skip_permission_denied, error), end;
       !error && at != end; at.increment(error))
    if (std::error_code none; at->is_directory(none)) watch(at->path().string());
}

void FolderWatch::watch(const std::string& folder) {
  // Watching a folder twice has no effect; a folder that was removed again is ignored.
  bool watched = inotify_add_watch(file_, folder.c_str(), kEvents) >= 0;
  if (!watched && errno != ENOENT && errno != ENOTDIR && errno != EACCES)
    throw Error("{} cannot be watched ({}); raise fs.inotify.max_user_watches, or run without --watch.", folder,
                strerror(errno));
}

bool FolderWatch::read_events() {
  alignas(inotify_event) char block[16384];
  bool counts = false, folders = false;
  for (ssize_t got; (got = read(file_, block, sizeof block)) > 0;) {
    for (ssize_t at = 0; at < got;) {
      const auto* event = reinterpret_cast<const inotify_event*>(block + at);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      std::string_view name = event->len > 0 ? event->name : "";
      folders = folders || (event->mask & (IN_ISDIR | IN_DELETE_SELF | IN_Q_OVERFLOW)) != 0;
      counts = counts || (event->mask & IN_Q_OVERFLOW) != 0;
      // A file that was only created is not written yet.
      if ((event->mask & (IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM)) != 0 && !of_an_editor(name))
        counts = true;
    }
  }
  // A new folder may already contain files, for which there was no event.
  if (folders) watch_all();
  return counts || folders;
}

bool FolderWatch::changed() {
  if (read_events()) changed_ = true;
  return changed_;
}

void FolderWatch::wait() {
  pollfd ready{file_, POLLIN, 0};
  while (!changed()) poll(&ready, 1, -1);
  while (poll(&ready, 1, kQuietMs) > 0) read_events();
  changed_ = false;
}

}  // namespace fk
