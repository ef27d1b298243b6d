// Whether something fits into memory, asked before it is allocated.
//
// Memory is promised freely and taken when touched: what is too large would be killed half way, without a word.
#pragma once

#include <string_view>

#include "core/device.h"

namespace fk {

// Throws Error with the numbers where the device has less memory free: "`what` take 9.0 GiB and this machine has 4.0
// GiB of memory free; `advice`."
void require_memory(double needed_bytes, Device device, std::string_view what, std::string_view advice);

}  // namespace fk
