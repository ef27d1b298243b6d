// The project's rules as functions of a source tree, so that each can be tested with a planted violation.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fk::arch {

struct Violation {
  std::string file;  // relative to the root
  int line = 0;      // 0: the file as a whole
  std::string what;
};

using Violations = std::vector<Violation>;

// Folders of src/ include only lower layers and themselves; backend/ and CUDA's headers stay where they belong.
Violations check_layers(const std::filesystem::path& root);
// No hand-written file of src, tests, tools or cmake is longer than 600 lines.
Violations check_file_lengths(const std::filesystem::path& root);
// Headers state their purpose on line 1 and have #pragma once.
Violations check_headers(const std::filesystem::path& root);
// x.cpp includes its x.h first: so compiling x.cpp proves that x.h compiles alone. cmake/header_check.cmake compiles
// the headers that have no such .cpp.
Violations check_own_header_first(const std::filesystem::path& root);
// No class, struct, union or enum of a named namespace is defined in two files: the linker would treat them as one
// type.
Violations check_one_definition(const std::filesystem::path& root);
// Headers that take seconds to parse are included where they must be and nowhere else.
Violations check_slow_headers(const std::filesystem::path& root);
// A file that uses a name of std:: includes its header, or a header of ours that does: precompiled headers would hide
// it.
Violations check_std_includes(const std::filesystem::path& root);
// Nothing in src/ is marked as unfinished.
Violations check_words(const std::filesystem::path& root);
// Paths named in .md files, in backticks, links or code blocks, exist. Placeholders (`{op}`, `<name>`, `*`) are matched
// up to the folder before them.
Violations check_documented_paths(const std::filesystem::path& root);
// No built or binary file among `files`, which are relative to the root.
Violations check_binaries(const std::filesystem::path& root, const std::vector<std::string>& files);
// What git tracks under `root`; empty where root is no git checkout.
std::vector<std::string> tracked_files(const std::filesystem::path& root);

std::string to_string(const Violations& violations);  // one per line, as file:line: what

}  // namespace fk::arch
