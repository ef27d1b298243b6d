// A candidate that takes every call and computes nothing. Its calls take what the runner needs for a call: inferring the
// outputs, choosing the implementation, and the C interface.
#pragma once

#include <memory>

#include "ops/foreign.h"
#include "ops/registry.h"

namespace fk {

std::shared_ptr<const ForeignKernel> empty_kernel(const OperatorInfo& op);

}  // namespace fk
