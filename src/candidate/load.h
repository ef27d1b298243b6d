// Loads a compiled candidate into this process. Its static constructors run here: judges do it in a sandboxed process.
#pragma once

#include <memory>
#include <string>

#include "ops/foreign.h"
#include "ops/registry.h"

namespace fk {

// Throws Error with a sentence where the file cannot be loaded, is no candidate, was made for another version of the
// boundary, or for another operator or signature than `op`'s. Stays loaded until the process ends: a candidate may have
// threads or exit handlers of its own.
std::shared_ptr<const ForeignKernel> load_candidate(const std::string& so_path, const OperatorInfo& op);

}  // namespace fk
