// Turns a compiler's output on a candidate into one readable sentence.
#pragma once

#include <string>

#include "candidate/compiler_process.h"
#include "candidate/folder.h"
#include "candidate/verdict.h"

namespace fk {

// The first error with its place. If the class does not match the operator, the expected class instead of a template
// error.
Failure explain_failure(const CompilerRun& run, const CandidateFile& file, int limit_ms);

}  // namespace fk
