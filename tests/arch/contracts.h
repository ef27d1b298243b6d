// Whether an operator's contract is complete: what the compiler cannot see of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ops/registry.h"

namespace fk::arch {

// The parts that are missing or contradict each other, one sentence each; empty when the contract is complete.
std::vector<std::string> check_contract(const OperatorInfo& op);

// An operator is found by its name alone, as src/ops/l{level}/{name}.{h,cpp}, and that .cpp registers no other.
std::vector<std::string> check_place(const OperatorInfo& op, const std::filesystem::path& root);

}  // namespace fk::arch
