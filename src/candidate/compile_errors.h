// Makes one readable sentence of what a compiler said about a candidate.
#pragma once

#include <string>

#include "candidate/compiler_process.h"
#include "candidate/folder.h"
#include "candidate/verdict.h"

namespace fk {

// The first error with its place. Where the class is not what the operator asks for, the expected one instead of the
// compiler's view of templates.
Failure explain_failure(const CompilerRun& run, const CandidateFile& file, int limit_ms);

}  // namespace fk
