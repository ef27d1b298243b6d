// Creates the CUDA implementation of core's DeviceJudging.
#pragma once

#include <memory>

#include "core/device_judging.h"

namespace fk::cuda {

// `stream` and the current device must outlive it.
std::unique_ptr<DeviceJudging> make_judging(int device, void* stream);

// Memory of the driver API that can be exported as a descriptor.
std::unique_ptr<SharedDeviceMemory> make_shared_memory(int device, size_t size_bytes);
std::unique_ptr<SharedDeviceMemory> open_shared_memory(int device, int fd, size_t size_bytes);

}  // namespace fk::cuda
