// A simulated device: its memory cannot be accessed at the device addresses, only through the runtime or by "kernels",
// which use a second mapping of the same pages. So code that reads device memory from the CPU by mistake crashes here
// too.
#pragma once

#include "core/device_runtime.h"

namespace fk::conformance {

inline constexpr Device kAliased{DeviceKind::kCuda, 0};

// Takes the place of a CUDA driver; call once, in a program without one.
void register_aliased_device();

// The next wait for the device throws Error, as when a kernel before it has failed.
void fail_next_wait();

// The address at which a kernel can access device memory.
void* reachable(const void* on_device);
// The same view, on the CPU. Rows are contiguous.
View reachable(const View& on_device);

}  // namespace fk::conformance
