// Mismatch: where the wrong elements of one output are, as a coarse grid and in words.
//
// It is made after the call and goes into the user's result; a candidate never sees it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/json_fwd.h"
#include "validate/call_check.h"

namespace fk {

struct Mismatch {
  std::string output;                     // the tensor's name
  int64_t rows = 0, cols = 0;             // of the tensor as a matrix: the last dimension is the columns
  std::vector<std::vector<double>> grid;  // share of wrong elements in each of up to 32 x 32 cells
  std::string pattern;                    // which elements are wrong and their values, in sentences; may be empty
};

struct MismatchCause {
  const CallTruth::Item& item;              // the tensor that is wrong
  const Tensor& got;                        // as the call wrote it
  std::optional<uint8_t> poison = {};       // the byte that outputs were filled with before the call
  std::vector<const Tensor*> earlier = {};  // results of earlier calls on other data, the latest last
};

// Empty if shape or dtype are not the expected ones, or if no element is out of its own bounds.
std::optional<Mismatch> find_mismatch(const MismatchCause& cause);

Json to_json(const Mismatch& mismatch);

}  // namespace fk
