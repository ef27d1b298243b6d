// doctor: describes this machine, its measured bandwidth and matrix peak, and what this build lacks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cli/missing_parts.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/device_runtime.h"
#include "core/thread_pool.h"
#include "measure/device_probe.h"
#include "measure/machine_info.h"
#include "measure/machine_probe.h"

namespace fk {
namespace {

Cell words_or_unknown(const std::string& words) { return words.empty() ? Cell() : Cell(words); }

std::string counted(int count, const char* noun) { return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s"); }

std::string cores_line(const MachineInfo& info) {
  std::string line = fmt::format("{} usable of {}", info.usable_cores, counted(info.layout.logical, "hardware thread"));
  if (info.layout.cores > 0)
    line += fmt::format(" ({}, {}, {})", counted(info.layout.cores, "core"), counted(info.layout.sockets, "socket"),
                        counted(std::max(1, info.layout.numa_nodes), "NUMA node"));
  if (info.cpu_quota > 0) line += fmt::format(", limited to {:.2f} cores' worth of time", info.cpu_quota);
  return line;
}

std::string gpu_line(const GpuInfo& gpu) {
  std::string line = gpu.name;
  if (gpu.memory_bytes > 0) line += ", " + human_bytes(gpu.memory_bytes);
  if (!gpu.compute_capability.empty()) line += ", compute capability " + gpu.compute_capability;
  if (!gpu.driver.empty()) line += ", driver " + gpu.driver;
  return line;
}

void add_machine(Table& table, const MachineInfo& info) {
  table.add_row({"cpu", "model", words_or_unknown(info.cpu.model)});
  table.add_row({"cpu", "vendor", words_or_unknown(info.cpu.vendor)});
  table.add_row({"cpu", "architecture", words_or_unknown(info.architecture)});
  table.add_row({"cpu", "cores", cores_line(info)});
  table.add_row({"cpu", "instructions", words_or_unknown(fmt::format("{}", fmt::join(info.instructions, " ")))});
  for (const CpuCache& cache : info.caches) {
    std::string size = human_bytes(cache.size_bytes);
    if (cache.shared_by > 1) size += fmt::format(", shared by {} threads", cache.shared_by);
    table.add_row({"cache", fmt::format("L{} {}", cache.level, cache.kind), size});
  }
  table.add_row({"memory", "total", human_bytes(info.memory.total_bytes)});
  table.add_row({"memory", "available", human_bytes(info.memory.available_bytes)});
  if (info.memory.limit_bytes > 0) table.add_row({"memory", "limit", human_bytes(info.memory.limit_bytes)});
  table.add_row({"system", "os", words_or_unknown(info.os)});
  table.add_row({"system", "kernel", words_or_unknown(info.kernel)});
  table.add_row({"system", "hypervisor", info.hypervisor.empty() ? "none found" : info.hypervisor});
  table.add_row({"system", "container", info.container.empty() ? "none found" : info.container});
  for (const CompilerInfo& compiler : info.compilers)
    table.add_row({"compiler", compiler.name, words_or_unknown(compiler.version)});
  for (size_t i = 0; i < info.gpus.size(); ++i) table.add_row({"gpu", std::to_string(i), gpu_line(info.gpus[i])});
  if (info.gpus.empty()) table.add_row({"gpu", "nvidia", "none found"});
}

void add_device(Table& table, DeviceRuntime& runtime, const std::optional<DeviceSpeeds>& speeds) {
  const DeviceFacts& f = runtime.facts();
  std::string part = device_name(runtime.device());
  table.add_row(
      {part, "architecture",
       fmt::format("{}, {} multiprocessors at up to {} MHz", f.architecture, f.multiprocessors, f.clock_mhz)});
  table.add_row({part, "memory",
                 fmt::format("{}, {} free, {} of L2", human_bytes(f.memory_bytes), human_bytes(runtime.free_bytes()),
                             human_bytes(f.l2_bytes))});
  table.add_row({part, "versions", fmt::format("driver for {}, built with {}", f.driver, f.library)});
  if (!speeds) return;
  table.add_row({part, "read bandwidth", fmt::format("{:.0f} GB/s", speeds->read_gbps)});
  table.add_row({part, "write bandwidth", fmt::format("{:.0f} GB/s", speeds->write_gbps)});
  table.add_row({part, "copy bandwidth", fmt::format("{:.0f} GB/s, read and written", speeds->copy_gbps)});
  table.add_row({part, "bf16 matrix rate", fmt::format("{:.0f} TFLOP/s", speeds->bf16_tflops)});
  table.add_row({part, "f32 peak", fmt::format("{:.1f} TFLOP/s", speeds->f32_tflops)});
  table.add_row(
      {part, "launch",
       fmt::format("{:.2f} us one by one, {:.2f} us recorded", speeds->launch_us, speeds->recorded_launch_us)});
}

void add_measured(Table& table, const MachineProbe& probe) {
  auto add = [&](const char* what, const Rate& rate, const char* unit) {
    table.add_row({"measured", what,
                   fmt::format("{:.4g} {} with {} (median {:.4g}; {})", rate.best, unit,
                               counted(probe.threads, "thread"), rate.median, rate.how)});
  };
  add("read bandwidth", probe.read_gbps, "GB/s");
  add("bf16 peak", probe.bf16_tflops, "TFLOP/s");
  add("f32 peak", probe.f32_tflops, "TFLOP/s");
}

class Doctor final : public Verb {
 public:
  Doctor()
      : Verb("doctor", "Describe this machine, its measured speeds, and what this build lacks",
             {"fastkernels doctor", "fastkernels doctor --threads 1", "fastkernels doctor --quick --json"}) {}

  void add_flags(FlagSet& flags) override { flags.flag("--quick", quick_, "Look only, measure nothing"); }

  void run(const CommonOptions& common) override {
    MachineInfo info = machine_info();
    MachineProbe probe = quick_ ? MachineProbe{} : measure(common);
    if (common.json) return print_json(info, probe);
    Table table({{"part", "part"}, {"item", "item"}, {"value", "value"}});
    add_machine(table, info);
    if (quick_)
      table.add_row({"measured", "nothing", "run without --quick to measure bandwidth and peak"});
    else
      add_measured(table, probe);
    for (DeviceRuntime* device : devices())
      add_device(table, *device, quick_ ? std::nullopt : std::optional(device->measure()));
    for (const MissingPart& part : missing_parts()) table.add_row({"switched off", part.name, part.why});
    table.print(common);
  }

 private:
  static std::vector<DeviceRuntime*> devices() {
    std::vector<DeviceRuntime*> usable;
    for (int i = 0; i < device_count(DeviceKind::kCuda); ++i) {
      Device device{DeviceKind::kCuda, static_cast<int8_t>(i)};
      if (device_missing(device).empty()) usable.push_back(&device_runtime(device));
    }
    return usable;
  }

  MachineProbe measure(const CommonOptions& common) const {
    Progress progress(common);
    ThreadPool pool(common.threads);
    ProbeOptions options;
    options.progress = [&](std::string_view what) { progress.show(what); };
    return probe_machine(pool, options);
  }

  void print_json(const MachineInfo& info, const MachineProbe& probe) const {
    Json json = {{"version", FK_VERSION}, {"machine", to_json(info)}};
    json["measured"] = quick_ ? Json() : to_json(probe);
    json["devices"] = Json::array();
    for (DeviceRuntime* device : devices()) {
      json["devices"].push_back({{"device", device_name(device->device())}, {"facts", to_json(device->facts())}});
      if (!quick_) json["devices"].back()["measured"] = to_json(device->measure());
    }
    json["switched_off"] = Json::array();
    for (const MissingPart& part : missing_parts())
      json["switched_off"].push_back({{"part", part.name}, {"why", part.why}});
    print_out(dump_json(json) + "\n");
  }

  bool quick_ = false;
};

Doctor doctor_verb;

}  // namespace
}  // namespace fk
