// A run of a tree in which no kernel runs: compositions call their parts with the real shapes, and the parts are left
// out. It needs no weights and touches no tensor, so a model of any size goes through in milliseconds.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "ops/materialize.h"
#include "ops/node.h"

namespace fk {

// A tree to run dry: compositions above, and below them operators that are never called.
BuildOptions dry_build_options();

// Runs `root` on the inputs of a workload. `observer`, where given, sees every call; only those of level 1 are left
// out. Returns the bytes of scratch memory the compositions asked for.
size_t dry_run(Node& root, const Workload& workload, CallObserver* observer = nullptr);

// A tensor of this shape that nobody may read or write.
View shape_only(const TensorSpec& spec);

}  // namespace fk
