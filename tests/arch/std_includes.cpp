// Names of the standard library whose header a file does not include. Precompiled headers hide this from compilers, so
// the includes are checked here.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "tests/arch/checks.h"
#include "tests/arch/tree.h"

namespace fk::arch {
namespace fs = std::filesystem;
namespace {

// Only names that one header is known for: what several provide (std::pair, std::move) proves nothing.
const std::map<std::string_view, std::vector<std::string_view>> kNames = {
    {"algorithm",
     {"sort", "stable_sort", "find_if", "any_of", "all_of", "none_of", "max_element", "transform", "min_element",
      "clamp", "nth_element", "lower_bound", "upper_bound", "count_if", "reverse", "shuffle", "fill_n", "copy_n",
      "remove_if"}},
    {"array", {"array"}},
    {"atomic", {"atomic"}},
    {"bit", {"bit_cast", "popcount", "countr_zero", "bit_width", "bit_ceil"}},
    {"charconv", {"from_chars", "to_chars"}},
    {"chrono", {"chrono"}},
    {"cmath", {"sqrt", "exp", "log", "pow", "tanh", "floor", "ceil", "isfinite", "isnan", "lround"}},
    {"concepts", {"same_as", "convertible_to", "derived_from", "integral", "floating_point"}},
    {"condition_variable", {"condition_variable"}},
    {"cstdio", {"fputs", "snprintf", "fwrite", "fopen"}},
    {"cstdlib", {"getenv", "strtod", "strtol", "abort"}},
    {"cstring", {"memcpy", "memset", "memcmp", "memmove", "strlen", "strerror"}},
    {"deque", {"deque"}},
    {"exception", {"exception_ptr", "current_exception"}},
    {"filesystem", {"filesystem"}},
    {"fstream", {"ifstream", "ofstream"}},
    {"functional", {"function"}},
    {"limits", {"numeric_limits"}},
    {"map", {"map", "multimap"}},
    {"memory", {"unique_ptr", "shared_ptr", "make_unique", "make_shared"}},
    {"mutex", {"mutex", "lock_guard", "unique_lock", "scoped_lock"}},
    {"numbers", {"numbers"}},
    {"numeric", {"accumulate", "iota", "inner_product"}},
    {"optional", {"optional", "nullopt"}},
    {"random", {"mt19937", "mt19937_64"}},
    {"regex", {"regex", "smatch"}},
    {"set", {"set", "multiset"}},
    {"span", {"span"}},
    {"sstream", {"ostringstream", "istringstream", "stringstream"}},
    {"string", {"string", "to_string", "stoi", "stod", "stoull"}},
    {"thread", {"thread"}},
    {"tuple", {"tuple", "tie"}},
    {"unordered_map", {"unordered_map"}},
    {"variant", {"variant", "visit", "holds_alternative"}},
    {"vector", {"vector"}},
};

std::map<std::string_view, std::string_view> header_of_names() {
  std::map<std::string_view, std::string_view> headers;
  for (const auto& [header, names] : kNames)
    for (std::string_view name : names) headers[name] = header;
  return headers;
}

class Tree {
 public:
  explicit Tree(fs::path root) : root_(std::move(root)) {}

  // Headers in angle brackets that a file includes, directly or through files of ours.
  const std::set<std::string>& system_headers(const std::string& file) {
    auto [found, added] = known_.try_emplace(file);
    std::set<std::string>& headers = found->second;
    if (!added) return headers;
    for (const Include& include : includes_of(root_ / file)) {
      if (!include.quoted) headers.insert(include.path);
      for (const char* folder : {"src/", "include/", ""})
        if (std::string path = folder + include.path; fs::is_regular_file(root_ / path)) {
          const std::set<std::string>& below = system_headers(path);
          headers.insert(below.begin(), below.end());
          break;
        }
    }
    return headers;
  }

 private:
  fs::path root_;
  std::map<std::string, std::set<std::string>> known_;
};

}  // namespace

Violations check_std_includes(const fs::path& root) {
  static const std::map<std::string_view, std::string_view> headers = header_of_names();
  constexpr std::string_view kStd = "std::";
  Violations violations;
  Tree tree(root);
  for (std::string_view folder : {"src", "tests"}) {
    for (const std::string& file : list_files(root, folder, {".h", ".cpp"})) {
      if (file.starts_with("tests/exploits/cheats/") || file.starts_with("tests/exploits/honest/")) continue;
      std::string code = code_of(root / file);
      std::set<std::string_view> told;
      for (size_t at = code.find(kStd); at != std::string::npos; at = code.find(kStd, at)) {
        size_t begin = at += kStd.size();
        while (at < code.size() && (std::isalnum(static_cast<unsigned char>(code[at])) || code[at] == '_')) ++at;
        auto found = headers.find(std::string_view(code).substr(begin, at - begin));
        if (found == headers.end() || tree.system_headers(file).contains(std::string(found->second))) continue;
        if (!told.insert(found->second).second) continue;
        int line = 1 + static_cast<int>(std::count(code.begin(), code.begin() + static_cast<long>(begin), '\n'));
        violations.push_back({file, line, fmt::format("uses std::{} without <{}>", found->first, found->second)});
      }
    }
  }
  return violations;
}

}  // namespace fk::arch
