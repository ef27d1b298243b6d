#include "core/device_thread.h"

#include <map>

namespace fk {
namespace {

std::map<DeviceKind, void (*)(int)>& device_selections() {
  static std::map<DeviceKind, void (*)(int)> all;
  return all;
}

}  // namespace

bool register_device_selection(DeviceKind kind, void (*select)(int index)) {
  return device_selections().emplace(kind, select).second;
}

void use_device_on_this_thread(Device device) {
  auto found = device_selections().find(device.kind);
  if (found != device_selections().end()) found->second(device.index);
}

}  // namespace fk
