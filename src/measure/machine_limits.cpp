// Reads /proc/meminfo and the control groups, both versions: the limits of every group from the process's own up to the
// root apply.
#include "measure/machine_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "measure/small_file.h"

namespace fk {
namespace {

// The number after `key` at the start of a line, as in "MemTotal:  24682740 kB".
std::optional<uint64_t> number_after(std::string_view text, std::string_view key) {
  for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at != 0 && text[at - 1] != '\n') continue;
    std::string_view rest = trim(text.substr(at + key.size()));
    uint64_t value = 0;
    if (std::from_chars(rest.data(), rest.data() + rest.size(), value).ec == std::errc()) return value;
  }
  return std::nullopt;
}

std::optional<uint64_t> number_in(const std::string& path) { return number_after(small_file(path).value_or(""), ""); }

// Folders of this process's groups for `controller` ("" is version 2), the innermost first. In a container the path may
// name a folder that exists only on the host; then the limits are in the root folder.
std::vector<std::string> group_folders(const std::string& root, std::string_view controller) {
  std::string mount = fmt::format("{}/sys/fs/cgroup{}{}", root, controller.empty() ? "" : "/", controller);
  std::string text = small_file(root + "/proc/self/cgroup").value_or("");
  std::string path;
  for (std::string_view rest = text; !rest.empty();) {
    size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    std::string names = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    if (names.find(fmt::format(",{},", controller)) != std::string::npos) path = line.substr(second + 1);
  }
  std::vector<std::string> folders;
  while (path.size() > 1) {
    folders.push_back(mount + path);
    size_t slash = path.rfind('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
  folders.push_back(mount);
  return folders;
}

// Applies the limit of one group to `info`. Cached file pages count as used there but are freed on demand.
void apply_group(MemoryInfo& info, std::optional<uint64_t> limit, uint64_t used, uint64_t reclaimable) {
  if (!limit || *limit >= info.total_bytes) return;  // version 1 writes "none" as a number near 2^63
  info.limit_bytes = info.limit_bytes == 0 ? *limit : std::min(info.limit_bytes, *limit);
  used -= std::min(used, reclaimable);
  info.available_bytes = std::min(info.available_bytes, *limit - std::min(*limit, used));
}

}  // namespace

MemoryInfo memory_info(const std::string& root) {
  std::string meminfo = small_file(root + "/proc/meminfo").value_or("");
  MemoryInfo info;
  info.total_bytes = number_after(meminfo, "MemTotal:").value_or(0) << 10;
  info.available_bytes = number_after(meminfo, "MemAvailable:").value_or(0) << 10;
  for (const std::string& folder : group_folders(root, "")) {
    apply_group(info, number_in(folder + "/memory.max"), number_in(folder + "/memory.current").value_or(0),
                number_after(small_file(folder + "/memory.stat").value_or(""), "inactive_file ").value_or(0));
  }
  for (const std::string& folder : group_folders(root, "memory")) {
    apply_group(info, number_in(folder + "/memory.limit_in_bytes"),
                number_in(folder + "/memory.usage_in_bytes").value_or(0),
                number_after(small_file(folder + "/memory.stat").value_or(""), "total_inactive_file ").value_or(0));
  }
  return info;
}

double cpu_quota(const std::string& root) {
  double quota = 0;
  auto apply = [&quota](std::optional<uint64_t> time, std::optional<uint64_t> period) {
    if (!time || !period || *period == 0) return;
    double cores = static_cast<double>(*time) / static_cast<double>(*period);
    quota = quota == 0 ? cores : std::min(quota, cores);
  };
  for (const std::string& folder : group_folders(root, "")) {
    std::string line = small_file(folder + "/cpu.max").value_or("");  // "150000 100000" or "max 100000"
    size_t blank = std::min(line.find(' '), line.size());
    apply(number_after(line, ""), number_after(line.substr(blank), " "));
  }
  for (const std::string& folder : group_folders(root, "cpu"))
    apply(number_in(folder + "/cpu.cfs_quota_us"), number_in(folder + "/cpu.cfs_period_us"));
  return quota;
}

}  // namespace fk
