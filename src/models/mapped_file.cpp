#include "models/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "core/check.h"
#include "core/error.h"
#include "core/file_pages.h"
#include "models/in_quotes.h"
#include "models/lost_pages.h"

namespace fk {

MappedFile::MappedFile(const std::string& path) {
  // O_NONBLOCK: a pipe is refused below instead of blocking.
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) throw Error("Cannot open {}: {}.", in_quotes(path), std::strerror(errno));
  struct stat info {};
  bool plain = fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
  void* mapped = nullptr;
  if (plain && info.st_size > 0)
    mapped = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
  int reason = errno;
  ::close(descriptor);
  if (!plain) throw Error("{} is not a plain file.", in_quotes(path));
  if (mapped == MAP_FAILED) throw Error("Cannot map {} into memory: {}.", in_quotes(path), std::strerror(reason));
  data_ = static_cast<std::byte*>(mapped);
  size_ = static_cast<size_t>(info.st_size);
  if (data_ == nullptr) return;
  watch_pages(data_, size_, path);
  add_file_pages(bytes());
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  remove_file_pages(bytes());
  forget_pages(data_);
  munmap(data_, size_);
}

void MappedFile::release(std::span<const std::byte> part) const {
  if (part.empty()) return;
  FK_CHECK(part.data() >= data_ && part.data() + part.size() <= data_ + size_);
  release_file_pages(part);
}

}  // namespace fk
