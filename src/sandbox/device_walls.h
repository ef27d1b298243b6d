// Which protections of the sandbox ("walls") a GPU's driver works with: found once, by trying.
#pragma once

#include <string>
#include <vector>

#include "candidate/walls.h"
#include "core/device.h"

namespace fk {

// kAll for the CPU. For a GPU the most protections with which a runner can open shared memory and write to it; throws
// Error if it cannot even without any.
Walls usable_walls(Device device);

// Why runners failed with more protections, one sentence each; empty if all of them work.
std::vector<std::string> failed_walls(Device device);

}  // namespace fk
