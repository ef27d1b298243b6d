#include "track/journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "core/loose_json.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

// The rest of a line that a crash cut off must not merge with the next line.
bool ends_in_the_middle(int fd) {
  struct stat file {};
  char last = '\n';
  if (fstat(fd, &file) == 0 && file.st_size > 0 && pread(fd, &last, 1, file.st_size - 1) != 1) last = '\n';
  return last != '\n';
}

// Writes `text` at the end of the file, to the disk.
void append_durably(const std::string& path, std::string_view text) {
  int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND, 0644);
  if (fd < 0) throw Error("{} cannot be written ({}); name another with --output-json.", path, strerror(errno));
  std::string whole = ends_in_the_middle(fd) ? "\n" : "";
  whole += text;
  text = whole;
  auto refuse = [&](int error) {
    close(fd);
    throw Error("{} could not be written whole ({}); make room, or name another with --output-json.", path,
                strerror(error));
  };
  while (!text.empty()) {
    ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) refuse(errno);
    text.remove_prefix(static_cast<size_t>(n));
  }
  // Not every kind of file can (a pipe, /dev/full); those that can must.
  if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP) refuse(errno);
  close(fd);
}

}  // namespace

void Journal::append(const Json& line) const {
  std::error_code error;
  if (fs::path folder = fs::path(path_).parent_path(); !folder.empty()) fs::create_directories(folder, error);
  if (error) throw Error("The folder of {} cannot be made ({}).", path_, error.message());
  append_durably(path_, dump_json(line, -1) + "\n");
}

std::vector<Json> Journal::lines(size_t* damaged) const {
  std::vector<Json> all;
  std::ifstream in(path_);
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    Json parsed = parse_loosely(line);
    if (parsed.is_object())
      all.push_back(std::move(parsed));
    else if (damaged != nullptr)
      ++*damaged;
  }
  return all;
}

void Journal::remove() const { std::remove(path_.c_str()); }

}  // namespace fk
