#include "tests/arch/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <regex>

#include "tests/arch/tree.h"

namespace fk::arch {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMaxLines = 600;

// Folders of src/ and their layers, as in ARCHITECTURE.md.
const std::map<std::string, int, std::less<>> kLayers = {
    {"core", 0},   {"ops", 1},       {"graph", 2},  {"backend", 2}, {"measure", 2},  {"track", 2},
    {"models", 3}, {"candidate", 3}, {"engine", 4}, {"sandbox", 4}, {"validate", 5}, {"compiler", 6},
    {"bench", 7},  {"agent", 8},     {"web", 8},    {"serve", 8},   {"cli", 9}};

const std::vector<std::string_view> kSources = {".h", ".cpp", ".cu", ".cuh"};

std::string first_folder(std::string_view path) { return std::string(path.substr(0, path.find('/'))); }

bool is_cuda_header(const std::string& path) {
  static const std::regex pattern(
      R"(^(cuda|cublas|cudnn|cufft|curand|cusparse|cusolver|cupti|nvrtc|nvml|nccl|nvToolsExt|device_launch|cooperative_groups|mma\.h|crt/|cub/|thrust/|cute/|cutlass/|nvtx3/))");
  return std::regex_search(path, pattern);
}

void check_include(const std::string& file, const Include& include, Violations& violations) {
  auto report = [&](std::string what) { violations.push_back({file, include.line, std::move(what)}); };
  std::string_view below_src = std::string_view(file).substr(4);
  std::string own = first_folder(below_src);
  if (is_cuda_header(include.path) && !below_src.starts_with("backend/cuda/"))
    report(fmt::format("includes CUDA's {} outside src/backend/cuda", include.path));
  if (!include.quoted) return;

  std::string other = first_folder(include.path);
  auto layer = kLayers.find(other);
  if (include.path.find('/') == std::string::npos || layer == kLayers.end()) {
    report(fmt::format("includes \"{}\", which is not a path from the root of src/", include.path));
  } else if (other == "backend" && own != "backend") {
    report(fmt::format("includes \"{}\"; implementations are found through the registry", include.path));
  } else if (include.path.starts_with("backend/cuda/") && !below_src.starts_with("backend/cuda/")) {
    report(fmt::format("includes \"{}\"; a CPU build has no src/backend/cuda", include.path));
  } else if (own != other && layer->second >= kLayers.find(own)->second) {
    report(fmt::format("layer {} ({}) includes \"{}\" of layer {}", kLayers.find(own)->second, own, include.path,
                       layer->second));
  }
}

}  // namespace

Violations check_layers(const fs::path& root) {
  Violations violations;
  for (const std::string& file : list_files(root, "src")) {
    std::string_view below_src = std::string_view(file).substr(4);
    if (below_src.find('/') == std::string_view::npos || !kLayers.contains(first_folder(below_src))) {
      violations.push_back({file, 0, "is in no folder of src/ that has a layer"});
      continue;
    }
    if (has_extension(file, {".cu", ".cuh"}) && !below_src.starts_with("backend/cuda/"))
      violations.push_back({file, 0, "is CUDA outside src/backend/cuda"});
    if (has_extension(file, kSources))
      for (const Include& include : includes_of(root / file)) check_include(file, include, violations);
  }
  return violations;
}

Violations check_file_lengths(const fs::path& root) {
  Violations violations;
  for (std::string_view folder : {"src", "tests", "tools", "cmake"}) {
    for (const std::string& file :
         list_files(root, folder,
                    {".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".cmake", "CMakeLists.txt", ".js", ".css", ".html"})) {
      size_t lines = read_lines(root / file).size();
      if (lines > kMaxLines)
        violations.push_back({file, 0, fmt::format("has {} lines; {} is the most, 250 the aim", lines, kMaxLines)});
    }
  }
  return violations;
}

Violations check_headers(const fs::path& root) {
  Violations violations;
  for (std::string_view folder : {"src", "tests"}) {
    for (const std::string& file : list_files(root, folder, {".h", ".cuh"})) {
      std::vector<std::string> lines = read_lines(root / file);
      if (lines.empty() || !lines[0].starts_with("// "))
        violations.push_back({file, 1, "does not say on its first line what it is for"});
      if (std::find(lines.begin(), lines.end(), "#pragma once") == lines.end())
        violations.push_back({file, 0, "has no #pragma once"});
    }
  }
  return violations;
}

Violations check_own_header_first(const fs::path& root) {
  Violations violations;
  for (const std::string& file : list_files(root, "src", {".cpp"})) {
    std::string header = file.substr(0, file.size() - 4) + ".h";
    if (!fs::exists(root / header)) continue;
    std::vector<Include> includes = includes_of(root / file);
    if (includes.empty() || "src/" + includes[0].path != header)
      violations.push_back({file, 0, fmt::format("does not include its own \"{}\" first", header.substr(4))});
  }
  return violations;
}

Violations check_slow_headers(const fs::path& root) {
  static const std::map<std::string, std::string, std::less<>> allowed = {
      {"CLI/CLI.hpp", "src/cli/command_line.cpp"},
      {"httplib.h", "src/web/server.cpp"},
      {"nlohmann/json.hpp", "src/core/json.h"},
  };
  Violations violations;
  for (const std::string& file : list_files(root, "src", kSources)) {
    for (const Include& include : includes_of(root / file)) {
      auto found = allowed.find(include.path);
      if (found != allowed.end() && found->second != file)
        violations.push_back(
            {file, include.line,
             fmt::format("includes {}, which takes seconds to parse; only {} may", include.path, found->second)});
    }
  }
  return violations;
}

Violations check_words(const fs::path& root) {
  static const std::regex unfinished(R"(\b(TODO|FIXME|XXX|HACK)\b)");
  // A regular expression takes a hundred times as long for a line.
  auto may_match = [](const std::string& line) {
    for (const char* word : {"TODO", "FIXME", "XXX", "HACK"})
      if (line.find(word) != std::string::npos) return true;
    return false;
  };
  Violations violations;
  for (const std::string& file : list_files(root, "src")) {
    int number = 0;
    for (const std::string& line : read_lines(root / file)) {
      ++number;
      std::smatch match;
      if (may_match(line) && std::regex_search(line, match, unfinished))
        violations.push_back({file, number, fmt::format("says {}", match.str())});
    }
  }
  return violations;
}

Violations check_binaries(const fs::path& root, const std::vector<std::string>& files) {
  Violations violations;
  for (const std::string& file : files) {
    if (has_extension(file, {".o", ".a", ".so", ".pyc", ".cubin", ".fatbin", ".ptx", ".db", ".sqlite", ".exe", ".bin",
                             ".pt", ".pdf", ".zip", ".gz"})) {
      violations.push_back({file, 0, "is a built or packed file; git holds sources only"});
      continue;
    }
    std::ifstream in(root / file, std::ios::binary);
    char block[8192];
    in.read(block, sizeof block);
    if (std::find(block, block + in.gcount(), '\0') != block + in.gcount())
      violations.push_back({file, 0, "is binary; git holds text only"});
  }
  return violations;
}

std::vector<std::string> tracked_files(const fs::path& root) {
  if (!fs::exists(root / ".git")) return {};
  // safe.directory is set on the command line, so that this works on a tree of another owner.
  std::string command = fmt::format("git -c safe.directory='*' -C '{}' ls-files -z", root.string());
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::vector<std::string> files(1);
  for (int c; pipe != nullptr && (c = std::fgetc(pipe.get())) != EOF;) {
    if (c == '\0')
      files.emplace_back();
    else
      files.back() += static_cast<char>(c);
  }
  files.pop_back();
  return files;
}

std::string to_string(const Violations& violations) {
  std::string text;
  for (const Violation& v : violations)
    text += v.line != 0 ? fmt::format("{}:{}: {}\n", v.file, v.line, v.what) : fmt::format("{}: {}\n", v.file, v.what);
  return text;
}

}  // namespace fk::arch
