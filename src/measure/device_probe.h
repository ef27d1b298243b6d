// Measures the speeds of a GPU, in the same form as those of the CPU.
#pragma once

#include "core/device_runtime.h"
#include "measure/machine_probe.h"

namespace fk {

// Takes about a second and a few GiB of the device's memory.
MachineProbe probe_device(DeviceRuntime& runtime);

Json to_json(const DeviceFacts& facts);
Json to_json(const DeviceSpeeds& speeds);

}  // namespace fk
