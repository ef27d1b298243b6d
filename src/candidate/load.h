// Loads a compiled candidate into this process. Its static constructors run here: the judge does this in a sandboxed
// process.
#pragma once

#include <memory>
#include <string>

#include "ops/foreign.h"
#include "ops/registry.h"

namespace fk {

// Throws Error if the file cannot be loaded, is not a candidate, was made for another version of the C interface, or
// for another operator or signature than `op`'s. Stays loaded until the process ends: a candidate may have threads or
// exit handlers.
std::shared_ptr<const ForeignKernel> load_candidate(const std::string& so_path, const OperatorInfo& op);

}  // namespace fk
