// Capabilities of the current device that kernels check before a launch.
#pragma once

#include <cstddef>
#include <string_view>

namespace fk::cuda {

// Whether it can start a kernel before the previous one has ended, and run blocks in clusters, and this build has code
// for that: on a GPU newer than Hopper a build for 80 and 90a runs what was made for 80.
bool has_hopper_launches();

// Why kernels that multiply by warpgroups (wgmma.cuh) cannot run: the build has none, or the device is not Hopper.
// Empty if they can.
std::string_view wgmma_unavailable();

// The maximum shared memory of a block with allow_shared_memory(), in bytes; 0 without a device.
size_t shared_memory_of_block();

}  // namespace fk::cuda
