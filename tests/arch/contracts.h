// Whether an operator's contract is complete: the part that the compiler cannot check.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ops/registry.h"

namespace fk::arch {

// The parts that are missing or contradict each other, one sentence each; empty when the contract is complete.
std::vector<std::string> check_contract(const OperatorInfo& op);

// The files of an operator are src/ops/l{level}/{name}.{h,cpp}, and that .cpp registers no other.
std::vector<std::string> check_place(const OperatorInfo& op, const std::filesystem::path& root);

}  // namespace fk::arch
