// OutputCheck: what a timed call gave, held against what the baseline gave on the same inputs.
//
// The oracle judged both before; in the timed loop the baseline is the reference, since it is already computed. Bounds
// are what two results that both keep the contract can differ by at most.
#pragma once

#include <cstdint>
#include <optional>

#include "candidate/runner/call_memory.h"
#include "candidate/verdict.h"
#include "ops/registry.h"

namespace fk {

class OutputCheck {
 public:
  OutputCheck(const OperatorInfo& op, const Fields& init, DType dtype);

  // `data` is what the call was given. Operators that judge themselves (sampling) have no single right output; theirs
  // is held against the baseline's by their own rule.
  std::optional<Failure> compare(const CallMemory& memory, int slot, const CallData& data, int candidate,
                                 int baseline) const;

  // Whether all that was written agrees, found by the GPU where it lies; cheap enough for every call. By the contract's
  // plain tolerance, so where the answer is no compare() has the last word: these inputs may allow more. None where a
  // GPU cannot say: on a CPU, for other tensors than floats, where operators judge themselves.
  std::optional<bool> agree_on_gpu(const CallMemory& memory, int slot, int candidate, int baseline) const;

  // Whether a short stretch of any tensor, at the place `secret` leads to, gives reason to compare whole. Cheap enough
  // for every call: who leaves one out is seen at once.
  bool looks_wrong(const CallMemory& memory, int slot, const CallData& data, int candidate, int baseline,
                   uint64_t secret) const;

 private:
  static std::optional<Failure> compare_tensor(const std::string& name, const View& candidate, const View& baseline,
                                               const Tolerance& tolerance, Verdict verdict);
  Tolerance tolerance_for(const CallData& data) const;

  const OperatorInfo& op_;
  const Fields init_;
  DType dtype_;
};

}  // namespace fk
