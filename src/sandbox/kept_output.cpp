#include "sandbox/kept_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace fk {
namespace {

constexpr off_t kMostBytes = 256 << 10;

}  // namespace

// Memory that cannot grow: writing more fails with an error, and a writer never waits for a reader.
KeptOutput::KeptOutput() : fd_(memfd_create("candidate output", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (fd_ < 0) return;
  if (ftruncate(fd_, kMostBytes) == 0 && fcntl(fd_, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0)
    return;
  close(fd_);
  fd_ = -1;
}

KeptOutput::~KeptOutput() {
  if (fd_ >= 0) close(fd_);
}

std::string KeptOutput::text() const {
  // The descriptors share their position, which is where the process stopped writing.
  off_t end = fd_ < 0 ? 0 : std::clamp<off_t>(lseek(fd_, 0, SEEK_CUR), 0, kMostBytes);
  std::string raw(static_cast<size_t>(end), '\0');
  ssize_t got = end == 0 ? 0 : pread(fd_, raw.data(), raw.size(), 0);
  raw.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  std::string text;
  for (char c : raw) {
    auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f)
      text += fmt::format("\\x{:02x}", byte);
    else
      text += c;
  }
  if (end == kMostBytes) text += "\n(more was not kept)\n";
  return text;
}

}  // namespace fk
