// Threads other than the one that opened a device have to select it before they use it.
#pragma once

#include "core/device.h"

namespace fk {

// Call it once on such a thread. Nothing happens for the CPU. Throws Error if the device fails.
void use_device_on_this_thread(Device device);

// What a backend registers: selects device `index` for the calling thread.
bool register_device_selection(DeviceKind kind, void (*select)(int index));

}  // namespace fk
