// Collects the parts and converts them to JSON.
#include "measure/machine_info.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "core/cpu_features.h"
#include "core/json.h"
#include "core/thread_pool.h"
#include "measure/small_file.h"

namespace fk {
namespace {

std::string os_name() {
  std::string text = small_file("/etc/os-release").value_or("");
  constexpr std::string_view kKey = "PRETTY_NAME=";
  size_t at = text.find(kKey);
  if (at == std::string::npos) return "";
  std::string name(trim(std::string_view(text).substr(at + kKey.size(), text.find('\n', at) - at - kKey.size())));
  if (name.size() >= 2 && name.front() == '"' && name.back() == '"') name = name.substr(1, name.size() - 2);
  return name;
}

std::string container_name() {
  if (std::getenv("KUBERNETES_SERVICE_HOST")) return "kubernetes";
  if (access("/.dockerenv", F_OK) == 0) return "docker";
  if (access("/run/.containerenv", F_OK) == 0) return "podman";
  if (const char* name = std::getenv("container")) return name;  // systemd's convention
  return "";
}

Json known(const std::string& text) { return text.empty() ? Json() : Json(text); }

template <class Number>
Json known(Number number) {
  return number == 0 ? Json() : Json(number);
}

}  // namespace

MachineInfo machine_info() {
  MachineInfo info;
  utsname system{};
  if (uname(&system) == 0) {
    info.architecture = system.machine;
    info.kernel = std::string(system.sysname) + " " + system.release;
  }
  info.cpu = cpu_name(small_file("/proc/cpuinfo").value_or(""));
  info.layout = cpu_layout();
  info.usable_cores = usable_cores();
  info.cpu_quota = cpu_quota();
  info.caches = cpu_caches();
  info.instructions = cpu_feature_names();
  info.memory = memory_info();
  info.os = os_name();
  info.hypervisor = hypervisor_name();
  info.container = container_name();
  info.compilers = compilers_on_path();
  info.gpus = nvidia_gpus();
  return info;
}

Json to_json(const MachineInfo& info) {
  Json json;
  json["architecture"] = known(info.architecture);
  json["cpu"] = {{"model", known(info.cpu.model)},        {"vendor", known(info.cpu.vendor)},
                 {"sockets", known(info.layout.sockets)}, {"cores", known(info.layout.cores)},
                 {"threads", known(info.layout.logical)}, {"numa_nodes", known(info.layout.numa_nodes)},
                 {"usable_cores", info.usable_cores},     {"quota_cores", known(info.cpu_quota)},
                 {"instructions", info.instructions}};
  json["caches"] = Json::array();
  for (const CpuCache& cache : info.caches)
    json["caches"].push_back({{"level", cache.level},
                              {"kind", cache.kind},
                              {"size_bytes", cache.size_bytes},
                              {"shared_by_threads", known(cache.shared_by)}});
  json["memory"] = {{"total_bytes", known(info.memory.total_bytes)},
                    {"available_bytes", known(info.memory.available_bytes)},
                    {"limit_bytes", known(info.memory.limit_bytes)}};
  json["system"] = {{"os", known(info.os)},
                    {"kernel", known(info.kernel)},
                    {"hypervisor", known(info.hypervisor)},
                    {"container", known(info.container)}};
  json["compilers"] = Json::array();
  for (const CompilerInfo& compiler : info.compilers)
    json["compilers"].push_back(
        {{"name", compiler.name}, {"path", compiler.path}, {"version", known(compiler.version)}});
  json["gpus"] = Json::array();
  for (const GpuInfo& gpu : info.gpus)
    json["gpus"].push_back({{"name", gpu.name},
                            {"memory_bytes", known(gpu.memory_bytes)},
                            {"driver", known(gpu.driver)},
                            {"compute_capability", known(gpu.compute_capability)}});
  return json;
}

}  // namespace fk
