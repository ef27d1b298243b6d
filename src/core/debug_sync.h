// FASTKERNELS_DEBUG_SYNC=1: wait for the device after every operator, so that a failure names the one that failed.
#pragma once

namespace fk {

// Asked for when the program started.
bool debug_sync();

}  // namespace fk
