// The text of fastkernels/operators.h, which candidates are compiled against: one class per operator, written from the
// contracts in the registry, so that it can never say anything else than they do.
#pragma once

#include <string>

#include "ops/registry.h"

namespace fk {

// "void forward(fk::Context& ctx, fk::View x, fk::View out)": compared at load, shown where a candidate got it wrong.
std::string forward_signature(const OperatorInfo& op);

// The lines a candidate of `op` has to have, for people.
std::string expected_class(const OperatorInfo& op);

std::string operators_header();

}  // namespace fk
