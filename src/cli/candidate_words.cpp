#include "cli/candidate_words.h"

#include <fmt/format.h>

#include <cstdio>

#include "candidate/compile_warnings.h"

namespace fk {

void show_warnings(const std::vector<std::string>& warnings) {
  if (!warnings.empty()) std::fputs((short_warnings(warnings) + "\n").c_str(), stderr);
}

void show_printed(const Json& row) {
  auto text = row.value("printed", "");
  if (text.empty()) return;
  std::string all = fmt::format("--- printed by the candidate in {} {}\n{}{}---\n", row.value("operator", ""),
                                row.value("scenario", ""), text, text.ends_with('\n') ? "" : "\n");
  std::fputs(all.c_str(), stderr);
}

}  // namespace fk
