// Candidates for the CPU written from definitions: readable C++ that is compiled, judged and timed as any other
// candidate.
#pragma once

#include <string>
#include <vector>

#include "ops/fields.h"
#include "ops/registry.h"

namespace fk {

// A call that a kernel is written for: constructor arguments, and shapes and dtypes of the inputs, in the order of the
// arguments. Extents of a batch are at least kVaryingExtent (loop_nest.h); they may be anything when it runs.
struct CallShape {
  Fields init;
  std::vector<OptView> given;
};

struct GeneratedCandidate {
  std::string source;                 // empty: there is none
  std::vector<std::string> refusals;  // by call: why it has no kernel; empty where it has one
  size_t covered = 0;                 // calls that have one
};

// One file for the operator, with a kernel for each call. Each is written from the cheapest of the expressions that
// equal the definition. Calls of other shapes are refused by the candidate, so that the baseline runs them.
GeneratedCandidate generate_candidate(const OperatorInfo& op, const std::vector<CallShape>& calls);

}  // namespace fk
