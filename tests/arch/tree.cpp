#include "tests/arch/tree.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
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

std::string code_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  size_t at = 0;
  auto blank_to = [&](size_t end) {
    for (end = std::min(end, text.size()); at < end; ++at)
      if (text[at] != '\n') text[at] = ' ';
  };
  // Behind the end of what starts at `from` and ends with `mark`; a backslash keeps the next character from ending it.
  auto behind = [&](std::string_view mark, size_t from, bool escapes) {
    for (size_t i = from; i < text.size(); ++i) {
      if (escapes && text[i] == '\\')
        ++i;
      else if (text.compare(i, mark.size(), mark) == 0)
        return i + mark.size();
    }
    return text.size();
  };
  bool line_start = true;  // only blanks since the line began
  while (at < text.size()) {
    char c = text[at];
    bool digit_before = at > 0 && std::isdigit(static_cast<unsigned char>(text[at - 1]));
    if (text.compare(at, 2, "//") == 0) {
      blank_to(behind("\n", at, true) - 1);
    } else if (text.compare(at, 2, "/*") == 0) {
      blank_to(behind("*/", at + 2, false));
    } else if (c == '#' && line_start) {
      blank_to(behind("\n", at, true) - 1);
    } else if (text.compare(at, 2, "R\"") == 0) {
      std::string mark = ")" + text.substr(at + 2, text.find('(', at) - at - 2) + "\"";
      blank_to(behind(mark, at, false));
    } else if (c == '"' || (c == '\'' && !digit_before)) {  // 1'000 is no literal
      blank_to(behind(std::string_view(&c, 1), at + 1, true));
    } else {
      ++at;
    }
    if (c == '\n' || std::isspace(static_cast<unsigned char>(c)) == 0) line_start = c == '\n';
  }
  return text;
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
