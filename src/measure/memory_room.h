// Checks whether something fits into memory before it is allocated.
//
// Linux grants memory when it is allocated and takes it when it is touched: a process that needs too much would be
// killed half way, without a message.
#pragma once

#include <string_view>

#include "core/device.h"

namespace fk {

// Throws Error with the numbers if the device has less free memory: "`what` take 9.0 GiB and this machine has 4.0 GiB
// of memory free; `advice`."
void require_memory(double needed_bytes, Device device, std::string_view what, std::string_view advice);

}  // namespace fk
