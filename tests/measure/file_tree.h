// A temporary folder of small files, used as /proc and /sys in tests; removed with the object.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace fk {

class FileTree {
 public:
  FileTree() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fk_tree_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    root_ = pattern;
  }
  ~FileTree() { std::filesystem::remove_all(root_); }
  FileTree(const FileTree&) = delete;
  FileTree& operator=(const FileTree&) = delete;

  void add(const std::string& path, const std::string& text) const {
    std::filesystem::path full = root_ + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text << "\n";
  }
  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

}  // namespace fk
