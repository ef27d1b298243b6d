#include "measure/settle.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>
#include <vector>

#include "core/environment_variable.h"
#include "core/json.h"
#include "measure/host_load.h"
#include "measure/timer.h"

namespace fk {
namespace {

// The few functions of the driver's library that are needed; it is there wherever the driver is.
class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    auto init = reinterpret_cast<int (*)()>(dlsym(library_, "nvmlInit_v2"));
    by_index_ = reinterpret_cast<ByIndex>(dlsym(library_, "nvmlDeviceGetHandleByIndex_v2"));
    temperature_ = reinterpret_cast<Temperature>(dlsym(library_, "nvmlDeviceGetTemperature"));
    memory_ = reinterpret_cast<Memory>(dlsym(library_, "nvmlDeviceGetMemoryInfo"));
    good_ = init != nullptr && by_index_ != nullptr && temperature_ != nullptr && memory_ != nullptr && init() == 0;
  }

  std::optional<GpuState> state(unsigned index) const {
    void* handle = nullptr;
    unsigned celsius = 0;
    MemoryInfo info{};
    constexpr int kDie = 0;  // the sensor
    if (!good_ || by_index_(index, &handle) != 0 || temperature_(handle, kDie, &celsius) != 0 ||
        memory_(handle, &info) != 0)
      return std::nullopt;
    return GpuState{static_cast<int64_t>(info.used), static_cast<int>(celsius)};
  }

 private:
  struct MemoryInfo {
    unsigned long long total, free, used;
  };
  using ByIndex = int (*)(unsigned, void**);
  using Temperature = int (*)(void*, int, unsigned*);
  using Memory = int (*)(void*, MemoryInfo*);

  void* library_;
  ByIndex by_index_ = nullptr;
  Temperature temperature_ = nullptr;
  Memory memory_ = nullptr;
  bool good_ = false;
};

// The driver counts all GPUs, the program those that CUDA_VISIBLE_DEVICES leaves.
std::optional<unsigned> driver_index(int index) {
  const std::string visible = environment_variable("CUDA_VISIBLE_DEVICES");
  if (visible.empty()) return static_cast<unsigned>(index);
  std::vector<std::string> parts = {""};
  for (char c : visible)
    if (c == ',')
      parts.emplace_back();
    else
      parts.back() += c;
  if (index < 0 || static_cast<size_t>(index) >= parts.size()) return std::nullopt;
  const std::string& part = parts[static_cast<size_t>(index)];
  unsigned number = 0;
  auto [end, status] = std::from_chars(part.data(), part.data() + part.size(), number);
  if (status != std::errc() || end != part.data() + part.size()) return std::nullopt;  // a UUID
  return number;
}

}  // namespace

std::optional<GpuState> gpu_state(Device device) {
  if (device.kind != DeviceKind::kCuda) return std::nullopt;
  static const Nvml nvml;
  const std::optional<unsigned> index = driver_index(device.index);
  return index ? nvml.state(*index) : std::nullopt;
}

Json Settled::to_json() const {
  Json json = {{"waited_s", waited_s}, {"ready", ready}, {"busy_cores", busy_cores}};
  if (gpu) json.update({{"gpu_temperature_c", gpu->temperature_c}, {"gpu_used_bytes", gpu->used_bytes}});
  return json;
}

Settle::Settle(Device device) : device_(device), first_(gpu_state(device)) {}

Settled Settle::wait(double limit_seconds, int threads) const {
  constexpr int64_t kLeftOver = int64_t{256} << 20;  // bytes: a context that another program keeps
  constexpr int kWarmer = 8, kCool = 50;             // degrees; clocks fall far above
  Stopwatch watch;
  Settled settled;
  while (true) {
    const double left = limit_seconds - watch.elapsed_s();
    const HostLoad load = host_load(std::clamp(left, 0.02, 0.2));
    settled.busy_cores = load.busy_cores;
    settled.gpu = gpu_state(device_);
    settled.warning.clear();
    if (const std::string busy = load_warning(load, device_ == kCpu ? threads : 1); !busy.empty())
      settled.warning = fmt::format("other programs keep {:.1f} of {} cores busy", load.busy_cores, load.cores);
    if (settled.gpu && first_) {
      if (settled.gpu->used_bytes > first_->used_bytes + kLeftOver)
        settled.warning = fmt::format("other programs use {:.1f} GiB of the GPU",
                                      static_cast<double>(settled.gpu->used_bytes) * 0x1p-30);
      else if (settled.gpu->temperature_c > std::max(first_->temperature_c + kWarmer, kCool))
        settled.warning = fmt::format("the GPU has {} °C, {} when the suite began", settled.gpu->temperature_c,
                                      first_->temperature_c);
    }
    settled.ready = settled.warning.empty();
    settled.waited_s = watch.elapsed_s();
    if (settled.ready || settled.waited_s >= limit_seconds) return settled;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace fk
