// host_copy: an array of any device as a tensor of the CPU.
#pragma once

#include "core/memory.h"

namespace fk {

// The elements of a view, dense. Waits for the device.
Tensor host_copy(const View& view);

}  // namespace fk
