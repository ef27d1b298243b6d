// Which walls a runner can have around it and still drive the GPU: found out once, by trying.
#pragma once

#include <string>
#include <vector>

#include "candidate/runner/sandbox.h"
#include "core/device.h"

namespace fk {

// kAll for the CPU. For a GPU the most walls behind which a runner can open shared memory and write to it; throws Error
// where it cannot without any.
Walls usable_walls(Device device);

// Why runners failed behind more walls than those, one sentence each; empty where all stand.
std::vector<std::string> failed_walls(Device device);

}  // namespace fk
