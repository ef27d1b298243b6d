// What the CUDA runtime needs kernels of its own for: dummy weights, the device's speeds, and whether there is code for
// it.
#pragma once

#include <cstdint>

#include "core/device_runtime.h"

namespace fk::cuda {

void launch_fill_dummy(const View& to, uint64_t key, float offset, float scale, int64_t first, void* stream);

DeviceSpeeds measure_device(void* stream);

// False where this program holds no kernels that device `index` can run.
bool has_code_for(int index);

}  // namespace fk::cuda
