// What kernels may ask of the current device before they are launched.
#pragma once

#include <cstddef>
#include <string_view>

namespace fk::cuda {

// Whether it can start a kernel before the previous one has ended, and run blocks in clusters.
bool has_hopper_launches();

// Why kernels that multiply by warpgroups (wgmma.cuh) cannot run: the build has none, or the device is no Hopper. Empty
// where they can.
std::string_view wgmma_unavailable();

// What a block may have with allow_shared_memory(), in bytes; 0 where there is no device.
size_t shared_memory_of_block();

}  // namespace fk::cuda
