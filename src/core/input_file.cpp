#include "core/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace fk {
namespace {

const char* kind_of(mode_t mode) {
  return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

}  // namespace

std::string read_file(const std::string& path, const std::string& what, const std::string& advice, size_t most_bytes) {
  // Not blocking: a pipe without a writer is refused below instead of blocking.
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  auto refuse = [&](const std::string& why) {
    if (file >= 0) close(file);
    throw Error("{} cannot be read ({}){}.", what, why, advice);
  };
  if (file < 0) refuse(strerror(errno));
  struct stat info {};
  if (fstat(file, &info) != 0) refuse(strerror(errno));
  if (!S_ISREG(info.st_mode)) refuse(fmt::format("it is {}, not a regular file", kind_of(info.st_mode)));
  auto too_large = [&] { refuse(fmt::format("it is larger than {} MiB", most_bytes >> 20)); };
  if (static_cast<size_t>(info.st_size) > most_bytes) too_large();
  std::string text;
  text.reserve(static_cast<size_t>(info.st_size));
  // Read to the end, not to the reported size: files in /proc report size 0.
  char block[65536];
  for (ssize_t got; (got = read(file, block, sizeof block)) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(strerror(errno));
    text.append(block, static_cast<size_t>(got));
    if (text.size() > most_bytes) too_large();
  }
  close(file);
  return text;
}

}  // namespace fk
