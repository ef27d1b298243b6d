// A missing file is not an error here: none of these files is required to exist.
#include "measure/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <map>

namespace fk {

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Called between timed samples: a buffer of a megabyte would evict other data from the caches.
std::optional<std::string> small_file(const std::string& path) {
  constexpr size_t kMost = 1 << 20;
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::string text;
  char piece[4096];
  ssize_t got = 0;
  while (text.size() < kMost && (got = read(fd, piece, sizeof piece)) > 0) text.append(piece, static_cast<size_t>(got));
  close(fd);
  if (got < 0) return std::nullopt;  // a directory, or a process that has ended
  return std::string(trim(text));
}

std::vector<std::string> files_like(const std::string& folder, std::string_view prefix) {
  std::map<int, std::string> found;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    std::string name = entry.path().filename();
    if (name.compare(0, prefix.size(), prefix) != 0) continue;
    const char* begin = name.data() + prefix.size();
    const char* end = name.data() + name.size();
    int number = 0;
    auto [stop, status] = std::from_chars(begin, end, number);
    if (status == std::errc() && stop == end) found[number] = entry.path();
  }
  std::vector<std::string> paths;
  for (auto& [number, path] : found) paths.push_back(std::move(path));
  return paths;
}

}  // namespace fk
