// CallTruth: everything a call must leave behind, and the check of what a subject left. One truth serves any number of
// calls on the same data, timed ones too.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "candidate/subject.h"
#include "validate/compare.h"
#include "validate/reference.h"

namespace fk {

// A tensor that a call left wrong.
struct CallFault {
  Verdict verdict = Verdict::kPassed;
  std::string sentence = {};  // begins with the tensor's name
  std::string tensor = {};
  std::optional<Shape> worst = {};
  double got = 0;
  double want = 0;
};

struct CallCheckResult {
  std::optional<CallFault> fault;  // the first
  int checks = 0;                  // tensors compared
  int64_t elements = 0;
  double worst_ratio = 0;
};

// The baseline's largest error / the contract's tolerance, by the tensor's name.
using BaselineRatios = std::map<std::string, double>;

class CallTruth {
 public:
  // `tree` is of the dtype judged; `data` must live as long as the truth. `exact` data has exact sums: where the
  // reference shows it and the baseline agrees, nothing but the output's rounding is allowed. `typical` are ratios() of
  // typical calls, joined.
  CallTruth(const Node& tree, const Workload& workload, const CallData& data, Reference& reference,
            const CallOutcome& baseline, bool exact, const BaselineRatios& typical = {});

  // Empty when these data can judge a candidate; else why not: the baseline failed, or breaks its own contract on them.
  const std::string& unusable() const { return unusable_; }
  const BaselineRatios& ratios() const { return ratios_; }

  CallCheckResult check(const CallOutcome& outcome) const;

  const Expected& expected() const { return expected_; }
  const CallData& data() const { return data_; }

  // A tensor a call writes.
  struct Item {
    std::string name;
    int arg = -1;    // of forward; -1: a state of the context
    int state = -1;  // of the context's states
    bool is_state = false;
    TensorSpec spec;
    View reference;
    const View* before = nullptr;  // its content before the call, states only
    Bounds bounds = {};
  };
  const std::vector<Item>& items() const { return items_; }

 private:
  CallCheckResult check_items(const CallOutcome& outcome) const;
  std::optional<CallFault> check_own_rule(const CallOutcome& outcome) const;

  const Node& tree_;
  const CallData& data_;
  Expected expected_;
  std::vector<Item> items_;
  std::string unusable_;
  BaselineRatios ratios_;
};

// The tensor an outcome holds for an item; null where it is missing.
const Tensor* written_tensor(const CallOutcome& outcome, const CallTruth::Item& item);

// Whether two outcomes have the same bits in everything they wrote; else the name of a tensor where they differ.
std::optional<std::string> differing_bits(const CallTruth& truth, const CallOutcome& a, const CallOutcome& b);

}  // namespace fk
