#include "candidate/compiler_walls.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "core/environment_variable.h"
#include "measure/child_output.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

fs::path real_path(const fs::path& path) {
  std::error_code error;
  fs::path real = fs::weakly_canonical(path, error);
  return error ? path : real;
}

bool contains(const fs::path& folder, const fs::path& path) {
  auto [end, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

class Readable {
 public:
  explicit Readable(const std::string& secret)
      : secret_(real_path(secret)), home_(real_path(environment_variable("HOME"))) {
    std::error_code none;
    tmp_ = real_path(fs::temp_directory_path(none));
  }

  void add(const fs::path& path) { paths_.push_back(path.string()); }
  // The folder with everything below it, unless that would expose too much.
  void add_folder(const fs::path& folder) {
    fs::path real = real_path(folder);
    for (const fs::path& apart : {secret_, home_, tmp_})
      if (!apart.empty() && contains(real, apart)) return;
    add(folder);
  }
  std::vector<std::string> paths() && { return std::move(paths_); }

 private:
  fs::path secret_, home_, tmp_;
  std::vector<std::string> paths_;
};

std::vector<std::string> split_at(std::string_view text, std::string_view separators) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (separators.find(c) != std::string_view::npos)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

// A compiler's folder and, if that is a bin, the usual folders of a compiler beside it: the rest of the prefix may be a
// home folder.
void add_program(const fs::path& program, Readable& readable) {
  readable.add(program);
  fs::path folder = program.parent_path(), prefix = folder.parent_path();
  if (folder.filename() != "bin") {
    readable.add_folder(folder);
    return;
  }
  readable.add(folder);
  for (const char* name : {"lib", "lib32", "lib64", "libexec", "include", "share", "nvvm", "targets", "extras"})
    readable.add(prefix / name);
  std::error_code error;
  fs::directory_iterator entry(prefix, error), end;
  for (; !error && entry != end; entry.increment(error))
    if (entry->path().filename().string().find("-linux") != std::string::npos) readable.add(entry->path());
}

// A word may contain a path anywhere: "-I", "-isystem", "-L", "--sysroot=", "-Wl,-rpath,". The user wrote it, so it is
// allowed.
void add_paths_in(const std::string& word, Readable& readable) {
  constexpr std::array<std::string_view, 7> kPrefixes = {"-isystem", "-iquote", "-idirafter", "-include",
                                                         "-I",       "-L",      "-B"};
  for (std::string part : split_at(word, ",=")) {
    for (std::string_view prefix : kPrefixes)
      if (part.starts_with(prefix)) {
        part = part.substr(prefix.size());
        break;
      }
    std::error_code error;
    if (!part.empty() && part != "/" && fs::exists(part, error)) readable.add(fs::absolute(part, error));
  }
}

// Its own folder; the whole folder of candidates, of which that is a level (L1 to L4); and headers in the two above.
void add_candidate(const fs::path& source, Readable& readable) {
  readable.add(source);
  fs::path folder = source.parent_path();
  std::string name = folder.filename().string();
  bool level = name.size() == 2 && name[0] == 'L' && std::isdigit(static_cast<unsigned char>(name[1])) != 0;
  if (level)
    readable.add(folder);
  else
    readable.add_folder(folder);
  if (level) readable.add_folder(folder.parent_path());
  constexpr size_t kMostHeaders = 512;
  size_t headers = 0;
  for (int up = 0; up < 3; ++up, folder = folder.parent_path()) {
    std::error_code error;
    fs::directory_iterator entry(folder, error), end;
    for (; !error && entry != end && headers < kMostHeaders; entry.increment(error)) {
      std::string extension = entry->path().extension().string();
      bool header = extension == ".h" || extension == ".hpp" || extension == ".cuh" || extension == ".inc";
      if (!header || entry->is_symlink(error)) continue;  // a symbolic link could lead anywhere
      readable.add(entry->path());
      ++headers;
    }
  }
}

std::string program_name(const std::string& word) { return fs::path(word).filename().string(); }

}  // namespace

std::vector<std::string> readable_by_compiler(const std::vector<std::string>& compiler,
                                              const std::vector<std::string>& flags, const std::string& source,
                                              const std::string& secret) {
  Readable readable(secret);
  for (const std::string& word : compiler) {
    add_paths_in(word, readable);
    if (word.starts_with("-")) continue;
    std::string path = word.find('/') == std::string::npos ? find_program(word).value_or("") : word;
    std::error_code error;
    if (path.empty() || !fs::exists(path, error)) continue;
    readable.add(path);
    add_program(real_path(path), readable);
  }
  for (const std::string& word : flags) add_paths_in(word, readable);
  for (const char* name : {"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "LD_LIBRARY_PATH",
                           "COMPILER_PATH", "GCC_EXEC_PREFIX", "CUDA_HOME", "CUDA_PATH"})
    for (const std::string& path : split_at(environment_variable(name), ":")) add_paths_in(path, readable);
  for (const char* name : {"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"})
    for (const std::string& word : split_at(environment_variable(name), " ")) add_paths_in(word, readable);
  add_candidate(source, readable);
  return std::move(readable).paths();
}

std::string needs_more_than_walls_allow(const std::vector<std::string>& compiler) {
  for (const std::string& word : compiler)
    for (const char* known : {"distcc", "sccache", "icecc", "icerun", "buildcache", "goma", "reclient"})
      if (program_name(word) == known) return word;
  return "";
}

}  // namespace fk
