// What the CUDA runtime needs kernels of its own for: dummy weights, the device's speeds, and whether there is code for
// it.
#pragma once

#include <cstdint>

#include "core/device_runtime.h"

namespace fk::cuda {

void launch_fill_dummy(const View& to, uint64_t key, float offset, float scale, int64_t first, void* stream);

DeviceSpeeds measure_device(void* stream);

// cudaSuccess where this program holds kernels that device `index` can run, and the device still runs anything.
int code_status(int index);

}  // namespace fk::cuda
