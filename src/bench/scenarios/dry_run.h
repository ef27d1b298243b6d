// Dry run: compositions call their parts with the real shapes, but no kernel runs. It needs no weights and accesses no
// tensor, so it takes milliseconds for a model of any size.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "ops/materialize.h"
#include "ops/node.h"

namespace fk {

// A tree for a dry run: compositions, and below them operators that are never called.
BuildOptions dry_build_options();

// Runs `root` on the inputs of a workload. `observer`, if given, gets every call; only those of level 1 are skipped.
// Returns the bytes of scratch memory that the compositions use.
size_t dry_run(Node& root, const Workload& workload, CallObserver* observer = nullptr);

// A tensor of this shape that must not be read or written.
View shape_only(const TensorSpec& spec);

}  // namespace fk
