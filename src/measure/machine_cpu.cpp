// Reads /proc/cpuinfo and sysfs; missing values stay unknown.
#include "measure/machine_cpu.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "measure/small_file.h"

namespace fk {
namespace {

// Arm processors have two numbers instead of a name; these are the ones found in servers and in Apple's machines.
constexpr std::pair<std::string_view, std::string_view> kArmVendors[] = {
    {"0x41", "ARM"},    {"0x42", "Broadcom"}, {"0x46", "Fujitsu"}, {"0x48", "HiSilicon"}, {"0x4e", "NVIDIA"},
    {"0x50", "Ampere"}, {"0x51", "Qualcomm"}, {"0x61", "Apple"},   {"0x6d", "Microsoft"}, {"0xc0", "Ampere"}};
constexpr std::pair<std::string_view, std::string_view> kArmParts[] = {
    {"0xd08", "Cortex-A72"},  {"0xd0b", "Cortex-A76"},  {"0xd0c", "Neoverse-N1"}, {"0xd40", "Neoverse-V1"},
    {"0xd49", "Neoverse-N2"}, {"0xd4f", "Neoverse-V2"}, {"0xd84", "Neoverse-V3"}, {"0xd8e", "Neoverse-N3"}};

template <size_t N>
std::string look_up(const std::pair<std::string_view, std::string_view> (&table)[N], std::string_view key) {
  for (const auto& [number, name] : table)
    if (number == key) return std::string(name);
  return std::string(key);
}

int parse_int(std::string_view text, int otherwise) {
  int value = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size() ? value : otherwise;
}

// The formats of sysfs: "48K", "2M" or plain bytes.
uint64_t parse_size(std::string_view text) {
  uint64_t value = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc()) return 0;
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  return unit == "K" ? value << 10 : unit == "M" ? value << 20 : unit == "G" ? value << 30 : unit.empty() ? value : 0;
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// Cache sizes from the C library (cpuid on x86-64), for systems without /sys.
std::vector<CpuCache> caches_from_libc() {
  constexpr struct {
    int level;
    const char* kind;
    int name;
  } kAsked[] = {{1, "data", _SC_LEVEL1_DCACHE_SIZE},
                {1, "instruction", _SC_LEVEL1_ICACHE_SIZE},
                {2, "unified", _SC_LEVEL2_CACHE_SIZE},
                {3, "unified", _SC_LEVEL3_CACHE_SIZE}};
  std::vector<CpuCache> caches;
  for (const auto& asked : kAsked) {
    long size = sysconf(asked.name);
    if (size > 0) caches.push_back({asked.level, asked.kind, static_cast<uint64_t>(size), 0});
  }
  return caches;
}

}  // namespace

CpuName cpu_name(std::string_view cpuinfo) {
  std::map<std::string, std::string> first;  // the first processor's lines
  while (!cpuinfo.empty()) {
    size_t end = std::min(cpuinfo.find('\n'), cpuinfo.size());
    std::string_view line = cpuinfo.substr(0, end);
    cpuinfo.remove_prefix(std::min(end + 1, cpuinfo.size()));
    size_t colon = line.find(':');
    if (colon != std::string_view::npos) first.emplace(trim(line.substr(0, colon)), trim(line.substr(colon + 1)));
  }
  if (first.count("model name")) return {first["model name"], first["vendor_id"]};
  if (!first.count("CPU implementer")) return {first["cpu model"], first["vendor_id"]};
  bool arm_design = first["CPU implementer"] == "0x41";
  std::string part = first["CPU part"];
  return {arm_design ? look_up(kArmParts, part) : "part " + part, look_up(kArmVendors, first["CPU implementer"])};
}

int count_cpu_list(std::string_view list) {
  int count = 0;
  while (!list.empty()) {
    size_t end = std::min(list.find(','), list.size());
    std::string_view range = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    size_t dash = range.find('-');
    int from = parse_int(range.substr(0, dash), -1);
    int to = dash == std::string_view::npos ? from : parse_int(range.substr(dash + 1), -1);
    if (from < 0 || to < from) return 0;
    count += to - from + 1;
  }
  return count;
}

CpuLayout cpu_layout(const std::string& root) {
  CpuLayout layout;
  layout.logical = count_cpu_list(small_file(root + "/sys/devices/system/cpu/online").value_or(""));
  if (layout.logical == 0) layout.logical = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  layout.numa_nodes = count_cpu_list(small_file(root + "/sys/devices/system/node/online").value_or(""));
  std::set<std::string> sockets;
  std::set<std::pair<std::string, std::string>> cores;
  for (const std::string& cpu : files_like(root + "/sys/devices/system/cpu", "cpu")) {
    auto socket = small_file(cpu + "/topology/physical_package_id"), core = small_file(cpu + "/topology/core_id");
    if (!socket || !core) continue;  // offline
    sockets.insert(*socket);
    cores.insert({*socket, *core});
  }
  layout.sockets = static_cast<int>(sockets.size());
  layout.cores = static_cast<int>(cores.size());
  return layout;
}

std::vector<CpuCache> cpu_caches(const std::string& root) {
  std::vector<CpuCache> caches;
  for (const std::string& index : files_like(root + "/sys/devices/system/cpu/cpu0/cache", "index")) {
    CpuCache cache;
    cache.level = parse_int(small_file(index + "/level").value_or(""), 0);
    cache.kind = lower(small_file(index + "/type").value_or("unified"));
    cache.size_bytes = parse_size(small_file(index + "/size").value_or(""));
    cache.shared_by = count_cpu_list(small_file(index + "/shared_cpu_list").value_or(""));
    if (cache.level > 0 && cache.size_bytes > 0) caches.push_back(cache);
  }
  return caches.empty() && root.empty() ? caches_from_libc() : caches;
}

}  // namespace fk
