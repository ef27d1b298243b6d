// OutputCheck: what timed calls gave, held against the truth by the bounds that judged calls have to keep.
//
// Every round is looked at, in places drawn after the calls returned: all of small outputs, tiles of large ones, so
// that over a run every element has its chance. There the baseline stands in for the truth: a candidate may differ from
// it by the calibrated bound of the candidate and the baseline's own error together. Whoever is beyond that anywhere,
// and a secret share of all calls besides, is held against the float64 oracle, whose word is final; where the oracle
// takes too long for the workload, the bound against the baseline is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "candidate/runner/call_memory.h"
#include "candidate/verdict.h"
#include "ops/registry.h"
#include "validate/call_check.h"
#include "validate/reference.h"

namespace fk {

class OutputCheck {
 public:
  // `params` are the weights that all sides were bound to.
  OutputCheck(const OperatorInfo& op, const Node& root, const Workload& workload, std::span<const Tensor> params);

  // Memory of two sides, by writer.
  struct Sides {
    int candidate = 0, baseline = 0;
  };

  // What is wrong in the places that `secret` leads to, at most `budget` elements of the slot; whole where it is small.
  // On a GPU everything is compared where it lies, and the call's data are asked for only where something looks wrong.
  using DataOf = std::function<const CallData&(int slot)>;
  std::optional<Failure> look(const CallMemory& memory, int slot, const DataOf& data_of, const CallData& shapes,
                              Sides sides, uint64_t secret, int64_t budget);
  // The whole call against the oracle. Nothing where the oracle takes too long, see oracle_affordable(). The baseline's
  // error on usual inputs calibrates the bounds of later calls.
  std::optional<Failure> judge(const CallMemory& memory, int slot, const CallData& data, Sides sides,
                               bool calibrate = true);

  bool oracle_affordable() const { return oracle_affordable_; }
  int64_t elements() const { return elements_; }  // looked at so far
  int judged() const { return judged_; }          // calls held against the oracle so far

 private:
  struct Written;  // a tensor that a call writes
  std::vector<Written> written(const CallMemory& memory, int slot, const CallData& data, Sides sides) const;
  bool agree(const Written& w, int64_t from, int64_t count, const Tolerance& tolerance, double scale) const;
  std::optional<Failure> final_word(const CallMemory& memory, int slot, const CallData& data, Sides sides,
                                    const Written& suspect, const Tolerance& tolerance);
  std::optional<Failure> own_rule(const CallMemory& memory, int slot, const CallData& data, Sides sides) const;
  CallOutcome outcome(const CallMemory& memory, int slot, int writer) const;
  Tolerance tolerance_on(const CallData& data) const;
  double allowed(const std::string& name) const;  // contract tolerances that a candidate and the baseline may differ by

  const OperatorInfo& op_;
  const Node& root_;
  Workload workload_;
  std::span<const Tensor> params_;
  bool oracle_affordable_;
  std::unique_ptr<Reference> reference_;  // made when it is first asked
  BaselineRatios typical_;
  int64_t elements_ = 0;
  int judged_ = 0;
};

}  // namespace fk
