// The text of fastkernels/operators.h, which candidates are compiled against: one class per operator, generated from
// the contracts in the registry, so that both always agree.
#pragma once

#include <string>

#include "ops/registry.h"

namespace fk {

// "void forward(fk::Context& ctx, fk::View x, fk::View out)": compared at load, shown if a candidate has another one.
std::string forward_signature(const OperatorInfo& op);

// The lines that a candidate of `op` must have, for messages.
std::string expected_class(const OperatorInfo& op);

std::string operators_header();

}  // namespace fk
