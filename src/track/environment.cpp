#include "track/environment.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "core/loose_json.h"

namespace fk {
namespace {

std::vector<std::string> lines_of_command(const char* command) {
  std::vector<std::string> lines;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command, "r"), &pclose);
  char block[4096];
  while (pipe && std::fgets(block, sizeof block, pipe.get()) != nullptr) {
    lines.emplace_back(block);
    while (!lines.back().empty() && lines.back().back() == '\n') lines.back().pop_back();
  }
  return lines;
}

// Of the current folder, where candidates are written and committed.
void add_git(Environment& e) {
  // No locks, so that a commit at the same time is not disturbed.
  std::vector<std::string> head = lines_of_command("git rev-parse HEAD --abbrev-ref HEAD 2>/dev/null");
  if (head.size() < 2 || head[0].size() < 40) return;
  e.git_commit = head[0];
  e.git_branch = head[1];
  e.git_dirty = !lines_of_command("git --no-optional-locks status --porcelain -uno 2>/dev/null | head -1").empty();
}

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream in(path);
  std::getline(in, line);
  return line;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

// The current clock, or the nominal one if the system does not report the current one (virtual machines). 0: unknown.
double cpu_clock_mhz() {
  std::string khz = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq");
  if (!khz.empty()) return std::strtod(khz.c_str(), nullptr) / 1000;
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("cpu MHz")) return std::strtod(line.c_str() + line.find(':') + 1, nullptr);
  return 0;
}

std::string cuda_version() {
  std::ifstream in("/usr/local/cuda/version.json");
  Json json = parse_loosely(std::string(std::istreambuf_iterator<char>(in), {}));
  if (!json.is_object() || !json.contains("cuda") || !json["cuda"].is_object()) return "";
  return json["cuda"].value("version", "");
}

// In clock ticks since boot: identifies a process even if its id is reused.
std::string start_time(int64_t pid) {
  std::string stat = first_line("/proc/" + std::to_string(pid) + "/stat");
  size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return "";
  std::istringstream fields(stat.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= 22 && fields >> field; ++i) {
  }
  return field;
}

}  // namespace

Environment collect_environment(const std::string& device, const Json& machine) {
  Environment e;
  e.device = device;
  e.host = host_name();
  add_git(e);
  using nlohmann::literals::operator""_json_pointer;
  auto text = [&](const Json::json_pointer& at) {
    return machine.contains(at) && machine.at(at).is_string() ? machine.at(at).get<std::string>() : std::string();
  };
  e.cpu_name = text("/cpu/model"_json_pointer);
  e.gpu_name = text("/gpus/0/name"_json_pointer);
  e.gpu_driver = text("/gpus/0/driver"_json_pointer);
  if (auto at = "/gpus/0/memory_bytes"_json_pointer; machine.contains(at) && machine.at(at).is_number())
    e.gpu_vram_mb = machine.at(at).get<int64_t>() >> 20;
  e.cuda_version = cuda_version();
  e.details = {{"machine", machine},
               {"process", process_json()},
               {"built_with", "g++ " __VERSION__},
               {"build_flags", FK_BUILD_FLAGS}};
  if (double load[3]; getloadavg(load, 3) == 3) e.details["load_average"] = {load[0], load[1], load[2]};
  if (double mhz = cpu_clock_mhz(); mhz > 0) e.details["cpu_clock_mhz"] = mhz;
  if (std::string governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"); !governor.empty())
    e.details["cpu_governor"] = governor;
  return e;
}

Json process_json() {
  return {{"host", host_name()}, {"pid", int64_t{getpid()}}, {"start_time", start_time(getpid())}};
}

bool process_alive(const Json& process, bool unknown) {
  if (!process.is_object() || process.value("host", "") != host_name()) return unknown;
  auto pid = process.value("pid", int64_t{0});
  if (pid <= 0) return unknown;
  if (kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) return false;
  return start_time(pid) == process.value("start_time", "");
}

}  // namespace fk
