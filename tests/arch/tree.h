// Reads a source tree: its files and their lines.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fk::arch {

// Files below root/folder with one of the extensions (all of them when the list is empty), as paths relative to the
// root, sorted. Build output, caches and .git are left out.
std::vector<std::string> list_files(const std::filesystem::path& root, std::string_view folder,
                                    const std::vector<std::string_view>& extensions = {});

std::vector<std::string> read_lines(const std::filesystem::path& file);

bool has_extension(std::string_view path, const std::vector<std::string_view>& extensions);

// The text of a source with every comment, literal and preprocessor line made blank; lines keep their numbers.
std::string code_of(const std::filesystem::path& file);

struct Include {
  int line = 0;
  std::string path;
  bool quoted = false;  // "x" rather than <x>
};
std::vector<Include> includes_of(const std::filesystem::path& file);

}  // namespace fk::arch
