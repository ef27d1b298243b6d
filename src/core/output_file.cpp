#include "core/output_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "core/error.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

// The links in /proc (/dev/stdout leads to one) refer to open files: the text of such a link is only a description.
bool in_proc(const fs::path& link) {
  struct statfs system {};
  std::string folder = link.has_parent_path() ? link.parent_path().string() : ".";
  return statfs(folder.c_str(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

struct Destination {
  std::string path;  // where the links end
  bool in_proc;      // ... or at the link of /proc
};

Destination follow_links(const std::string& path) {
  constexpr int kMaxLinks = 40;  // as many as Linux follows
  fs::path at = path;
  for (int i = 0; i < kMaxLinks; ++i) {
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(at, error))) return {at.string(), false};
    if (in_proc(at)) return {at.string(), true};
    fs::path next = fs::read_symlink(at, error);
    if (error) break;
    at = next.is_absolute() ? next : at.parent_path() / next;
  }
  throw Error("{} cannot be written: its symbolic links have no end; name another file.", path);
}

// The number of an open file of this process, for /dev/stdout and /proc/self/fd/N.
std::optional<int> own_descriptor(const fs::path& link) {
  std::error_code error;
  if (fs::canonical(link.parent_path(), error) != fs::path(fmt::format("/proc/{}/fd", getpid())) || error)
    return std::nullopt;
  std::string name = link.filename();
  int number = -1;
  auto [end, status] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (status != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

// A short name in the same folder: the file's own name may already have the maximum length.
std::string temporary_name(const fs::path& target) {
  static std::atomic<int> number{0};
  return (target.parent_path() / fmt::format(".fastkernels-{}-{}.new", getpid(), number.fetch_add(1))).string();
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  if (path_.empty()) throw Error("A file to write has an empty name; give it one.");
  Destination destination = follow_links(path_);
  target_ = destination.path;
  if (destination.in_proc) {
    std::optional<int> open_file = own_descriptor(target_);
    file_ = open_file ? fcntl(*open_file, F_DUPFD_CLOEXEC, 0) : open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (file_ < 0) refuse(errno);
    return;
  }
  check_output_path(path_);
  struct stat info {};
  if (stat(target_.c_str(), &info) != 0) {
    if (errno != ENOENT) refuse(errno);
    open_beside(target_);
    return;
  }
  if (S_ISREG(info.st_mode)) {
    open_beside(target_);
    // Keep the permissions of the old file.
    static_cast<void>(!fchown(file_, info.st_uid, info.st_gid));
    static_cast<void>(fchmod(file_, info.st_mode & 07777));
    return;
  }
  file_ = open(target_.c_str(), O_WRONLY | O_CLOEXEC);
  if (file_ < 0) refuse(errno);
}

OutputFile::~OutputFile() { close_and_remove(); }

void OutputFile::open_beside(const std::string& target) {
  std::string name = temporary_name(target);
  remove_.make(
      [&] {
        do file_ = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        while (file_ < 0 && errno == EEXIST && unlink(name.c_str()) == 0);  // left by a process that was killed
      },
      [name] { unlink(name.c_str()); });
  int error = errno;
  if (file_ < 0) {
    remove_.forget();
    refuse(error);
  }
  temporary_ = name;
}

void OutputFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = ::write(file_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) refuse(n < 0 ? errno : ENOSPC);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void OutputFile::finish(bool durable) {
  // A pipe or a device has no disk.
  if (durable && !temporary_.empty() && fsync(file_) != 0) refuse(errno);
  if (close(std::exchange(file_, -1)) != 0) refuse(errno);
  if (temporary_.empty()) return;
  if (rename(temporary_.c_str(), target_.c_str()) != 0) refuse(errno);
  temporary_.clear();
  remove_.forget();
}

void OutputFile::refuse(int error) {
  close_and_remove();
  throw Error("{} cannot be written ({}); name a file in a folder that exists and has room.", path_, strerror(error));
}

void OutputFile::close_and_remove() {
  if (file_ >= 0) close(std::exchange(file_, -1));
  if (!std::exchange(temporary_, {}).empty()) remove_.undo();
}

void write_file(const std::string& path, std::string_view bytes, bool durable) {
  OutputFile file(path);
  file.write(bytes);
  file.finish(durable);
}

void check_output_path(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return;
  if (S_ISDIR(info.st_mode)) throw Error("{} is a folder; name a file.", path);
  if (S_ISSOCK(info.st_mode) || S_ISBLK(info.st_mode))
    throw Error("{} is a {}, which is not written to; name a file.", path, S_ISSOCK(info.st_mode) ? "socket" : "disk");
}

bool is_special_file(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
}

}  // namespace fk
