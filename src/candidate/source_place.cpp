#include "candidate/source_place.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <filesystem>

#include "candidate/compiler_process.h"
#include "measure/child_output.h"
#include "measure/small_file.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

constexpr int kLimitMs = 5'000;

// Relative to the current folder if it is inside.
std::string short_path(const std::string& path) {
  std::error_code error;
  fs::path here = fs::current_path(error), near = fs::path(path).lexically_relative(here);
  std::string text = error || near.empty() || near.string().starts_with("..") ? path : near.string();
  for (char& c : text)  // a candidate can set any file name with #line
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

bool in_headers(std::string_view path) {
  return path.starts_with("/usr/") || path.find("/fastkernels/candidate.h") != path.npos ||
         path.find("/fastkernels/kernel_abi.h") != path.npos || path.find("/fastkernels/operators.h") != path.npos;
}

}  // namespace

uint64_t library_base(pid_t process, const std::string& library) {
  struct stat wanted;
  if (library.empty() || stat(library.c_str(), &wanted) != 0) return 0;
  std::string maps = small_file(fmt::format("/proc/{}/maps", process)).value_or("");
  for (size_t begin = 0; begin < maps.size();) {
    size_t end = std::min(maps.find('\n', begin), maps.size());
    std::string line = maps.substr(begin, end - begin);
    begin = end + 1;
    uint64_t start = 0, offset = 0, inode = 0;
    if (sscanf(line.c_str(), "%" SCNx64 "-%*x %*s %" SCNx64 " %*s %" SCNu64, &start, &offset, &inode) == 3 &&
        offset == 0 && inode == wanted.st_ino)
      return start;
  }
  return 0;
}

std::string place_in_frames(const std::string& frames) {
  for (size_t begin = 0; begin < frames.size();) {
    size_t end = std::min(frames.find('\n', begin), frames.size());
    std::string line = frames.substr(begin, end - begin);
    begin = end + 1;
    if (size_t note = line.find(" ("); note != line.npos) line.resize(note);  // "(discriminator 3)"
    size_t colon = line.rfind(':');
    if (colon == line.npos || colon == 0 || line[0] == '?' || in_headers(line)) continue;
    std::string number = line.substr(colon + 1);
    if (number.empty() || number == "0" || number.find_first_not_of("0123456789") != number.npos) continue;
    return fmt::format("{}:{}", short_path(line.substr(0, colon)), number);
  }
  return "";
}

std::string source_place(const std::string& library, uint64_t address, const std::string& work_folder) {
  std::optional<std::string> program = find_program("addr2line");
  if (!program || library.empty()) return "";
  CompilerRun run = run_compiler({*program, "-i", "-e", library, fmt::format("{:#x}", address)}, kLimitMs,
                                 CompilerWalls{{library}, work_folder});
  return run.succeeded() ? place_in_frames(run.log) : "";
}

}  // namespace fk
