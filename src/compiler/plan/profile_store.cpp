#include "compiler/plan/profile_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "candidate/compile.h"
#include "candidate/compile_cache.h"
#include "candidate/toolchain.h"
#include "core/device_runtime.h"
#include "core/json.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".profile";

// Entries of the folder, the oldest first.
std::vector<fs::path> entries(const std::string& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code error;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, error)) {
    if (file.path().extension() != kSuffix) continue;
    fs::file_time_type time = file.last_write_time(error);
    if (!error) found.emplace_back(time, file.path());
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> paths;
  for (auto& [time, path] : found) paths.push_back(std::move(path));
  return paths;
}

// Baselines are part of this program: a new build has another size or date.
std::string own_build() {
  struct stat info = {};
  if (stat("/proc/self/exe", &info) != 0) return {};
  return fmt::format("{} {}.{}", info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

}  // namespace

ProfileStore::ProfileStore(std::string folder)
    : folder_(folder.empty() ? default_cache_folder() + "/profiles" : std::move(folder)) {}

std::string ProfileStore::path(const std::string& key) const { return fmt::format("{}/{}{}", folder_, key, kSuffix); }

std::optional<TrialResult> ProfileStore::find(const std::string& key) const {
  std::optional<std::string> text = file_text(path(key));
  if (!text) return {};
  size_t line = text->find('\n');
  if (line == text->npos || text->substr(0, line) != Fingerprint().add(text->substr(line + 1)).hex()) return {};
  try {
    TrialResult result = trial_from_json(parse_json(text->substr(line + 1), path(key)));
    // The oldest entries are removed, and those that are read are not old.
    utimensat(AT_FDCWD, path(key).c_str(), nullptr, 0);
    return result;
  } catch (const std::exception&) {
    return {};  // of another version
  }
}

bool ProfileStore::store(const std::string& key, const TrialResult& result) const {
  if (!result.lasts()) return false;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return false;
  std::string text = dump_json(trial_to_json(result)) + "\n";
  return write_whole(path(key), Fingerprint().add(text).hex() + "\n" + text);
}

int64_t ProfileStore::clear() const {
  int64_t removed = 0;
  std::error_code error;
  for (const fs::path& file : entries(folder_)) removed += fs::remove(file, error) ? 1 : 0;
  return removed;
}

void ProfileStore::prune(int64_t most) const {
  std::vector<fs::path> all = entries(folder_);
  std::error_code error;
  for (size_t i = 0; i + static_cast<size_t>(most) < all.size(); ++i) fs::remove(all[i], error);
}

std::string profile_key(const std::string& kernel, const TrialOptions& options) {
  return Fingerprint()
      .add(kernel)
      .add(own_build())
      .add(toolchain_for(options.device.kind, {}).target)
      .add(options.device == kCpu ? "" : device_runtime(options.device).facts().name)
      .add(fmt::format("{} threads, rows {}", options.threads, fmt::join(options.rows, ",")))
      .hex();
}

}  // namespace fk
