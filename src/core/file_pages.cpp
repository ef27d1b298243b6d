#include "core/file_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

namespace fk {
namespace {

struct Mappings {
  std::mutex mutex;
  std::vector<std::span<const std::byte>> all;
};
Mappings& mappings() {
  static Mappings known;
  return known;
}

}  // namespace

void add_file_pages(std::span<const std::byte> mapping) {
  std::lock_guard lock(mappings().mutex);
  mappings().all.push_back(mapping);
}

void remove_file_pages(std::span<const std::byte> mapping) {
  std::lock_guard lock(mappings().mutex);
  std::erase_if(mappings().all, [&](const auto& known) { return known.data() == mapping.data(); });
}

bool release_file_pages(std::span<const std::byte> part) {
  std::lock_guard lock(mappings().mutex);
  auto holds = [&](const std::span<const std::byte>& known) {
    return part.data() >= known.data() && part.data() + part.size() <= known.data() + known.size();
  };
  if (std::none_of(mappings().all.begin(), mappings().all.end(), holds)) return false;
  auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto begin = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  auto end = reinterpret_cast<uintptr_t>(part.data() + part.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  return true;
}

}  // namespace fk
