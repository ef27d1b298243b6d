// The bridge over the C interface: wraps a candidate's function table as a ForeignKernel for the registry.
#pragma once

#include <memory>

#include <fastkernels/kernel_abi.h>
#include "core/error.h"
#include "ops/foreign.h"
#include "ops/registry.h"

namespace fk {

// A candidate's allocation failed, because of the system or its limits.
class CandidateOutOfMemory : public Error {
 public:
  using Error::Error;
};

// `table` must stay valid as long as the kernel and every operator made by it.
std::shared_ptr<const ForeignKernel> bridge_to(const fk_candidate& table, const OperatorInfo& op);

fk_view to_abi(const View& view);

}  // namespace fk
