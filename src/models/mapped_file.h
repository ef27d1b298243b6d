// A file mapped into memory for reading.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

namespace fk {

class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path);  // throws Error where it is missing, unreadable or no plain file
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::span<std::byte> bytes() const { return {data_, size_}; }  // a write to them faults

  // Releases the pages that lie completely inside this part of the mapping; they are loaded again when read.
  void release(std::span<const std::byte> part) const;

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace fk
