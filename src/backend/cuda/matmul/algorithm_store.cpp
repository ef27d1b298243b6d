#include "backend/cuda/matmul/algorithm_store.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace fk::cuda {
namespace {

namespace fs = std::filesystem;

fs::path cache_folder() {
  if (const char* folder = std::getenv("FASTKERNELS_CACHE_DIR"); folder != nullptr && *folder != 0) return folder;
  if (const char* folder = std::getenv("XDG_CACHE_HOME"); folder != nullptr && *folder != 0)
    return fs::path(folder) / "fastkernels";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != 0)
    return fs::path(home) / ".cache" / "fastkernels";
  return {};
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Empty for anything but pairs of hexadecimal digits.
std::vector<unsigned char> from_hex(const std::string& text) {
  std::vector<unsigned char> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    int high = digit(text[i]), low = digit(text[i + 1]);
    if (high < 0 || low < 0) return {};
    bytes.push_back(static_cast<unsigned char>(16 * high + low));
  }
  return bytes;
}

}  // namespace

AlgorithmStore::AlgorithmStore(const std::string& name) {
  fs::path folder = cache_folder();
  if (folder.empty()) return;
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  std::string file = name;
  for (char& c : file)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  path_ = (folder / ("matmul_" + file + ".txt")).string();
  std::ifstream in(path_);
  // A line is key, blank, bytes. The last line of a key counts; an incomplete line has the wrong number of bytes.
  for (std::string key, bytes; in >> key >> bytes;)
    if (std::vector<unsigned char> algorithm = from_hex(bytes); !algorithm.empty()) known_[key] = algorithm;
}

std::vector<unsigned char> AlgorithmStore::find(const std::string& key) {
  std::lock_guard lock(mutex_);
  auto at = known_.find(key);
  return at == known_.end() ? std::vector<unsigned char>() : at->second;
}

void AlgorithmStore::put(const std::string& key, const std::vector<unsigned char>& algorithm) {
  std::lock_guard lock(mutex_);
  known_[key] = algorithm;
  if (path_.empty()) return;
  std::string line = key + " ";
  for (unsigned char byte : algorithm) line += fmt::format("{:02x}", byte);
  // One write in append mode: lines of two processes do not mix.
  std::ofstream(path_, std::ios::app) << line + "\n" << std::flush;
}

}  // namespace fk::cuda
