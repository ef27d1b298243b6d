// FASTKERNELS_DEBUG_SYNC=1: synchronise after every operator, so that an error names the operator that failed.
#pragma once

namespace fk {

// Whether the variable was set when the program started.
bool debug_sync();

}  // namespace fk
