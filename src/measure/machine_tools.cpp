// Runs each tool to get its version, with a time limit: a broken driver must not hang `doctor`.
#include "measure/machine_tools.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <mutex>

#include "measure/child_output.h"
#include "measure/small_file.h"

namespace fk {
namespace {

constexpr int kLimitMs = 5000;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    size_t end = std::min(text.find(separator), text.size());
    parts.push_back(trim(text.substr(0, end)));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

// nvcc prints a name and a copyright first; the line with its version contains "release".
std::string version_line(std::string_view text) {
  std::vector<std::string_view> lines = split(text, '\n');
  auto release = std::find_if(lines.begin(), lines.end(),
                              [](std::string_view line) { return line.find(", release ") != std::string_view::npos; });
  return std::string(release == lines.end() ? lines.front() : *release);
}

// The driver's own files, for machines without nvidia-smi.
std::vector<GpuInfo> gpus_from_proc() {
  std::vector<GpuInfo> gpus;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", failed)) {
    std::string text = small_file(entry.path() / "information").value_or("");
    for (std::string_view line : split(text, '\n'))
      if (line.substr(0, 6) == "Model:") gpus.push_back({std::string(trim(line.substr(6))), 0, "", ""});
  }
  return gpus;
}

}  // namespace

// Each is asked once per process: a verb records its machine at the start and writes it into its results at the end.
std::vector<CompilerInfo> compilers_on_path() {
  static std::mutex mutex;
  static std::map<std::string, std::string> versions;  // by path
  const std::lock_guard lock(mutex);
  std::vector<CompilerInfo> found;
  for (const char* name : {"g++", "clang++", "nvcc"}) {
    auto path = find_program(name);
    if (!path) continue;
    auto [known, is_new] = versions.try_emplace(*path);
    if (is_new) known->second = version_line(output_of({*path, "--version"}, kLimitMs).value_or(""));
    found.push_back({name, *path, known->second});
  }
  return found;
}

std::vector<GpuInfo> parse_nvidia_smi(std::string_view csv) {
  std::vector<GpuInfo> gpus;
  for (std::string_view line : split(csv, '\n')) {
    std::vector<std::string_view> fields = split(line, ',');
    if (fields.size() != 4) continue;
    uint64_t memory_mib = 0;  // stays 0 for "[N/A]"
    std::from_chars(fields[1].data(), fields[1].data() + fields[1].size(), memory_mib);
    gpus.push_back({std::string(fields[0]), memory_mib << 20, std::string(fields[2]), std::string(fields[3])});
  }
  return gpus;
}

std::vector<GpuInfo> nvidia_gpus() {
  if (!find_program("nvidia-smi")) return gpus_from_proc();
  auto csv = output_of(
      {"nvidia-smi", "--query-gpu=name,memory.total,driver_version,compute_cap", "--format=csv,noheader,nounits"},
      kLimitMs);
  return csv ? parse_nvidia_smi(*csv) : gpus_from_proc();
}

}  // namespace fk
