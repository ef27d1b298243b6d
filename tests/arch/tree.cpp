#include "tests/arch/tree.h"

#include <algorithm>
#include <fstream>
#include <regex>

namespace fk::arch {
namespace fs = std::filesystem;

bool has_extension(std::string_view path, const std::vector<std::string_view>& extensions) {
  return std::any_of(extensions.begin(), extensions.end(), [&](std::string_view e) { return path.ends_with(e); });
}

std::vector<std::string> list_files(const fs::path& root, std::string_view folder,
                                    const std::vector<std::string_view>& extensions) {
  std::vector<std::string> files;
  if (!fs::is_directory(root / folder)) return files;
  for (auto it = fs::recursive_directory_iterator(root / folder); it != fs::recursive_directory_iterator(); ++it) {
    std::string name = it->path().filename().string();
    if (it->is_directory()) {
      bool foreign = name == "build" || name == "__pycache__" || name == ".git" || name == ".venv" || name == ".cache";
      if (foreign) it.disable_recursion_pending();
    } else if (extensions.empty() || has_extension(name, extensions)) {
      files.push_back(it->path().lexically_relative(root).generic_string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> read_lines(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<Include> includes_of(const fs::path& file) {
  static const std::regex pattern(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::vector<Include> includes;
  int number = 0;
  for (const std::string& line : read_lines(file)) {
    ++number;
    std::smatch match;
    if (line.find('#') != std::string::npos && std::regex_search(line, match, pattern))
      includes.push_back({number, match[2], match[1] == "\""});
  }
  return includes;
}

}  // namespace fk::arch
