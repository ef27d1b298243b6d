// check_documented_paths: finds paths of this repository in a Markdown text, and checks that they exist.
#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <set>

#include "tests/arch/checks.h"
#include "tests/arch/tree.h"

namespace fk::arch {
namespace fs = std::filesystem;
namespace {

// Created by the build or by the user, so they need not exist.
constexpr std::string_view kMadeLater[] = {"build/", "tasks/candidate/L", "bench/results/", "bench/profiles/",
                                           "compile_commands.json"};

const std::vector<std::string_view> kSourceNames = {".h", ".cpp", ".py", ".cmake", ".sh", ".md"};

struct Mention {
  std::string path;
  bool link = false;  // relative to the .md file, as Markdown renderers take it
};

bool starts_like_a_path(const fs::path& root, const std::string& token) {
  static const std::set<std::string, std::less<>> top = {"src",   "tests",     "tools", "cmake",   "docs",
                                                         "tasks", "scenarios", ".ci",   "include", "examples"};
  std::string first = token.substr(0, token.find('/'));
  if (token.find('/') == std::string::npos) return false;
  return top.contains(first) || fs::is_directory(root / "src" / first);
}

// Cuts a line number (`x.cpp:12`), an anchor (`x.md#part`) and the punctuation of the sentence.
std::string trimmed(std::string token) {
  token = std::regex_replace(token, std::regex(R"((:\d+)+$)"), "");
  if (size_t anchor = token.find('#'); anchor != std::string::npos) token.resize(anchor);
  while (!token.empty() && std::string_view(".,;:)\"'").find(token.back()) != std::string_view::npos) token.pop_back();
  while (!token.empty() && (token.front() == '(' || token.front() == '"' || token.front() == '\'')) token.erase(0, 1);
  if (token.starts_with("./")) token.erase(0, 2);
  return token;
}

// `x.{h,cpp}` stands for x.h and x.cpp; braces without a comma are a placeholder.
std::vector<std::string> expanded(const std::string& token) {
  static const std::regex choice(R"(\{([^{}]*,[^{}]*)\})"), comma(",");
  std::smatch match;
  if (!std::regex_search(token, match, choice)) return {token};
  std::string inner = match[1];
  std::vector<std::string> all;
  for (std::sregex_token_iterator it(inner.begin(), inner.end(), comma, -1), end; it != end; ++it)
    for (std::string& one : expanded(match.prefix().str() + it->str() + match.suffix().str()))
      all.push_back(std::move(one));
  return all;
}

std::vector<std::string> words_of(const std::string& text) {
  static const std::regex word(R"((?:\{[^}\s]*\}|[^\s=`|,])+)");
  std::vector<std::string> words;
  for (std::sregex_token_iterator it(text.begin(), text.end(), word), end; it != end; ++it)
    for (std::string& one : expanded(it->str())) words.push_back(trimmed(std::move(one)));
  return words;
}

std::vector<Mention> mentions_of(const std::string& line, bool in_code_block) {
  static const std::regex code(R"(`([^`]+)`)"), link(R"(\]\(([^)\s]+)\))");
  std::vector<Mention> mentions;
  auto add_words = [&](const std::string& text) {
    for (const std::string& word : words_of(text)) mentions.push_back({word});
  };
  if (in_code_block) {
    add_words(line);
    return mentions;
  }
  for (std::sregex_iterator it(line.begin(), line.end(), code), end; it != end; ++it) add_words((*it)[1]);
  for (std::sregex_iterator it(line.begin(), line.end(), link), end; it != end; ++it) {
    std::string target = (*it)[1];
    if (target.find("://") == std::string::npos && !target.starts_with("#") && !target.starts_with("mailto:"))
      mentions.push_back({trimmed(target), true});
  }
  return mentions;
}

// The part before the first placeholder, back to its folder; the whole path where there is none.
std::string literal_part(const std::string& path) {
  size_t placeholder = std::min({path.find_first_of("*{<[$"), path.find("..."), path.find("…")});
  if (placeholder == std::string::npos) return path;
  size_t slash = path.rfind('/', placeholder);
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

}  // namespace

Violations check_documented_paths(const fs::path& root) {
  Violations violations;
  std::set<std::string> names;  // of all files, for sources mentioned by name alone
  for (const std::string& file : list_files(root, "")) names.insert(fs::path(file).filename().string());

  std::vector<std::string> documents = tracked_files(root);
  if (documents.empty()) documents = list_files(root, "");
  for (const std::string& document : documents) {
    if (!document.ends_with(".md")) continue;
    fs::path folder = (root / document).parent_path();
    int number = 0;
    bool in_code_block = false;
    for (const std::string& line : read_lines(root / document)) {
      ++number;
      if (line.find("```") != std::string::npos) {
        in_code_block = !in_code_block;
        continue;
      }
      for (const Mention& mention : mentions_of(line, in_code_block)) {
        std::string path = literal_part(mention.path);
        bool made_later = std::any_of(std::begin(kMadeLater), std::end(kMadeLater),
                                      [&](std::string_view prefix) { return mention.path.starts_with(prefix); });
        if (path.empty() || path.starts_with('/') || path.starts_with('~') || path.find("://") != std::string::npos ||
            made_later)
          continue;
        bool found = true;
        if (mention.link) {
          found = fs::exists(folder / path);
        } else if (starts_like_a_path(root, path)) {
          found = fs::exists(root / path) || fs::exists(root / "src" / path) || fs::exists(folder / path);
        } else if (path == mention.path && path.find('/') == std::string::npos && !in_code_block &&
                   has_extension(path, kSourceNames) && !path.starts_with('.')) {
          found = names.contains(path);
        }
        if (!found)
          violations.push_back({document, number, fmt::format("names {}, which does not exist", mention.path)});
      }
    }
  }
  return violations;
}

}  // namespace fk::arch
