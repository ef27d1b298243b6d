// Types that are defined twice under one name. The compiler sees one file at a time, and the linker treats them as one
// type.
#include <fmt/format.h>

#include <cctype>
#include <map>
#include <regex>

#include "tests/arch/checks.h"
#include "tests/arch/tree.h"

namespace fk::arch {
namespace fs = std::filesystem;
namespace {

struct Definition {
  std::string name;  // with its namespaces
  int line = 0;
};

// Types defined in named namespaces: not local ones, not members, not specialisations.
std::vector<Definition> types_of(const fs::path& file) {
  static const std::regex opens_namespace(R"(\bnamespace\s*([\w:]*)\s*$)");
  static const std::regex defines_type(
      R"((?:^|[\s>])(?:struct|class|union|enum(?:\s+class)?)\s+(?:alignas\([^)]*\)\s*|\[\[\w+\]\]\s*)*(\w+)\s*(?:final\s*)?(?::[^:].*)?$)");
  std::vector<Definition> types;
  std::vector<std::string> scopes;  // names of namespaces; "" for everything else that braces enclose
  std::string code = code_of(file), before;
  int line = 1;
  for (char c : code) {
    if (c == '\n') ++line;
    if (c == '{') {
      std::smatch match;
      bool named = true;
      std::string path;
      for (const std::string& scope : scopes) {
        named = named && !scope.empty();
        path += scope + "::";
      }
      if (std::regex_search(before, match, opens_namespace)) {
        scopes.push_back(match[1]);
      } else {
        if (before.ends_with(' ')) before.pop_back();
        if (named && !scopes.empty() && std::regex_search(before, match, defines_type))
          types.push_back({path + match[1].str(), line});
        scopes.emplace_back();
      }
    } else if (c == '}' && !scopes.empty()) {
      scopes.pop_back();
    }
    bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (c == '{' || c == '}' || c == ';')
      before.clear();
    else if (!space || (!before.empty() && before.back() != ' '))  // std::regex recurses over every character
      before += space ? ' ' : c;
  }
  return types;
}

}  // namespace

Violations check_one_definition(const fs::path& root) {
  Violations violations;
  std::map<std::string, std::string> first;  // type -> the file that defines it
  for (const std::string& file : list_files(root, "src", {".h", ".cpp", ".cu", ".cuh"})) {
    for (const Definition& type : types_of(root / file)) {
      auto [found, added] = first.emplace(type.name, file);
      if (!added && found->second != file)
        violations.push_back({file, type.line, fmt::format("defines {}, as {} does", type.name, found->second)});
    }
  }
  return violations;
}

}  // namespace fk::arch
