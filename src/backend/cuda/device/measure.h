// Kernels of the CUDA runtime: dummy weights, measured speeds, and a test whether the program has code for the device.
#pragma once

#include <cstdint>

#include "core/device_runtime.h"

namespace fk::cuda {

void launch_fill_dummy(const View& to, uint64_t key, float offset, float scale, int64_t first, void* stream);
// Sets *found, which is on the device, to 1 if a value is NaN or infinite.
void launch_find_not_finite(const View& values, unsigned* found, void* stream);

DeviceSpeeds measure_device(void* stream);

// cudaSuccess if this program has kernels for device `index`, and the device works.
int code_status(int index);

}  // namespace fk::cuda
