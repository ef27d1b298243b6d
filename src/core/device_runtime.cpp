#include "core/device_runtime.h"

#include <cstring>
#include <map>
#include <mutex>

#include "core/error.h"

namespace fk {
namespace {

std::map<DeviceKind, DeviceDriver>& drivers() {
  static std::map<DeviceKind, DeviceDriver> registered;
  return registered;
}

}  // namespace

bool register_device_driver(DeviceKind kind, const DeviceDriver& driver) {
  return drivers().emplace(kind, driver).second;
}

int device_count(DeviceKind kind) {
  if (kind == DeviceKind::kCpu) return 1;
  auto driver = drivers().find(kind);
  return driver == drivers().end() ? 0 : driver->second.count();
}

std::string device_missing(Device device) {
  if (device.kind == DeviceKind::kCpu) return {};
  auto driver = drivers().find(device.kind);
  if (driver == drivers().end())
    return "this program was built without the CUDA backend; build the preset cuda-release";
  return driver->second.unavailable(device.index);
}

DeviceRuntime& device_runtime(Device device) {
  FK_CHECK(device.kind != DeviceKind::kCpu, "the CPU needs no runtime");
  static std::mutex mutex;
  // Never destroyed: buffers that exist until the process ends free their memory through it.
  static auto& open = *new std::map<int, std::unique_ptr<DeviceRuntime>>;
  std::lock_guard lock(mutex);
  auto at = open.find(device.index);
  if (at == open.end()) {
    if (std::string why = device_missing(device); !why.empty())
      throw Error("Device {} cannot be used: {}.", device_name(device), why);
    at = open.emplace(device.index, drivers().at(device.kind).open(device.index)).first;
  }
  return *at->second;
}

DeviceJudging& DeviceRuntime::judging() {
  throw Error("Nothing can be judged on device {}: its backend shares no memory.", device_name(device()));
}

void copy_between(const View& from, const View& to) {
  FK_CHECK(from.spec() == to.spec() && from.contiguous() && to.contiguous());
  bool from_device = from.device() != kCpu, to_device = to.device() != kCpu;
  if (from.numel() == 0) return;
  if (!from_device && !to_device) {
    std::memcpy(to.data(), from.data(), from.size_bytes());
  } else if (!from_device) {
    device_runtime(to.device()).upload(to.data(), from.data(), from.size_bytes());
    device_runtime(to.device()).synchronize();
  } else if (!to_device) {
    device_runtime(from.device()).download(to.data(), from.data(), from.size_bytes());
  } else {
    FK_CHECK(from.device() == to.device(), "no copies between two devices");
    device_runtime(to.device()).copy(to.data(), from.data(), from.size_bytes());
  }
}

}  // namespace fk
