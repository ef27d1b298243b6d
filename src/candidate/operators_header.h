// The text of fastkernels/operators.h, which candidates are compiled against: one class per operator, generated from
// the contracts in the registry, so that both always agree.
#pragma once

#include <string>
#include <string_view>

#include "ops/registry.h"

namespace fk {

// "void forward(fk::Context& ctx, fk::View x, fk::View out)": compared at load, shown if a candidate has another one.
std::string forward_signature(const OperatorInfo& op);

// The lines that a candidate of `op` must have, for messages.
std::string expected_class(const OperatorInfo& op);

std::string operators_header();

// Whether a candidate of `op` names no class of another operator, nor includes files that could.
bool needs_own_class_only(const OperatorInfo& op, std::string_view source);

}  // namespace fk
