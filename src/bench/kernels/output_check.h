// OutputCheck: checks the outputs of timed calls, with the same bounds as in the judgement.
//
// Every round is checked, at positions chosen after the calls returned: small outputs completely, large ones in random
// tiles. They are compared with the baseline: a candidate may differ from it by the sum of the calibrated bound and the
// baseline's own error. A call beyond that, and a secret share of all calls, is compared with the float64 oracle, which
// decides; if the oracle takes too long for the workload, the comparison with the baseline decides.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "candidate/verdict.h"
#include "ops/registry.h"
#include "sandbox/call_memory.h"
#include "validate/call_check.h"
#include "validate/judge.h"
#include "validate/reference.h"

namespace fk {

class OutputCheck {
 public:
  // `judge` has the oracle, bound to the weights that all sides have.
  OutputCheck(const OperatorInfo& op, const Node& root, const Workload& workload, Judge& judge);

  // Memory of two sides, by writer.
  struct Sides {
    int candidate = 0, baseline = 0;
  };

  // Checks at most `budget` elements of the slot at positions derived from `secret`; small ones completely. On a GPU
  // everything is compared in its memory, and the call's data are fetched only if something is wrong.
  using DataOf = std::function<const CallData&(int slot)>;
  std::optional<Failure> look(const CallMemory& memory, int slot, const DataOf& data_of, const CallData& shapes,
                              Sides sides, uint64_t secret, int64_t budget);
  // Compares a whole call of several writers with the oracle. Does nothing if the oracle takes too long, see
  // oracle_affordable(). The baseline's error on usual inputs calibrates the bounds of later calls.
  struct Found {
    int writer = 0;
    Failure failure;
  };
  std::optional<Found> judge(const CallMemory& memory, int slot, const CallData& data, int baseline,
                             std::span<const int> writers, bool calibrate = true);

  double oracle_seconds() const { return oracle_seconds_; }         // of one call, roughly
  bool oracle_affordable() const { return oracle_seconds_ <= 3; }   // for a few calls
  bool oracle_is_quick() const { return oracle_seconds_ <= 0.15; }  // for a few calls in every launch
  int64_t elements() const { return elements_; }                    // checked so far
  int judged() const { return judged_; }                            // calls compared with the oracle so far

 private:
  struct Written;  // a tensor that a call writes
  std::vector<Written> written(const CallMemory& memory, int slot, const CallData& data, Sides sides) const;
  bool agree(const Written& w, int64_t from, int64_t count, const Tolerance& tolerance, double scale) const;
  std::optional<Failure> final_word(const CallMemory& memory, int slot, const CallData& data, Sides sides,
                                    const Written& suspect, const Tolerance& tolerance);
  std::optional<Failure> own_rule(const CallMemory& memory, int slot, const CallData& data, Sides sides) const;
  CallOutcome outcome(const CallMemory& memory, int slot, int writer) const;
  Tolerance tolerance_on(const CallData& data) const;
  // Allowed difference of candidate and baseline, in contract tolerances.
  double allowed(const std::string& name) const;

  const OperatorInfo& op_;
  const Node& root_;
  Workload workload_;
  Judge& judge_;
  double oracle_seconds_;
  BaselineRatios typical_;  // of timed calls; those of judged ones hold until one was compared
  int64_t elements_ = 0;
  int judged_ = 0;
};

}  // namespace fk
