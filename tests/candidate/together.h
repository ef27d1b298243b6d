// Compiles many candidates in few runs of the compiler. Reading the headers takes most of the time of compiling a small
// candidate, and nearly all of it with nvcc.
#pragma once

#include <string>
#include <vector>

#include "candidate/compile.h"

namespace fk {

struct CandidateText {
  const OperatorInfo* op;
  std::string path;  // for messages, and for files that it includes; it need not exist
  std::string text;
};

// The error of every candidate that does not compile: each is in a namespace of its own, after the includes of all of
// them. Where some of them do not compile together, each is compiled alone, and that result counts.
std::vector<std::string> compile_errors(const std::vector<CandidateText>& all, DeviceKind device,
                                        const CompileOptions& options);

}  // namespace fk
