// A device without hardware: its memory may not be touched at the addresses it gives out, only through the runtime or
// by "kernels", which know where the same pages can be reached. So whoever reads device memory from the CPU by mistake
// crashes here too.
#pragma once

#include "core/device_runtime.h"

namespace fk::conformance {

inline constexpr Device kAliased{DeviceKind::kCuda, 0};

// Takes the place of a CUDA driver; call once, in a program without one.
void register_aliased_device();

// The next wait for the device throws Error, as when a kernel before it has failed.
void fail_next_wait();

// Where a kernel finds what lies at an address of the device.
void* reachable(const void* on_device);
// The same view, on the CPU. Rows are contiguous.
View reachable(const View& on_device);

}  // namespace fk::conformance
