// CallTruth: the expected results of a call, and the check of a subject's results against them. One CallTruth serves
// any number of calls on the same data, timed calls too.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "candidate/subject.h"
#include "validate/compare.h"
#include "validate/reference.h"

namespace fk {

// A tensor with a wrong result.
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
  // `tree` has the dtype judged; `data` must live as long as this object, and `reference` keep its weights. `exact`:
  // sums over the data are exact; if the reference confirms it and the baseline agrees, only the rounding of the output
  // is allowed. `typical`: the joined ratios() of typical calls.
  CallTruth(const Node& tree, const Workload& workload, const CallData& data, Reference& reference,
            const CallOutcome& baseline, bool exact, const BaselineRatios& typical = {});

  // Empty if these data can judge a candidate. Otherwise the reason: the baseline failed, or breaks its own contract on
  // them.
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
    double typical_error = -1;  // the baseline's median; negative: not compared
  };
  const std::vector<Item>& items() const { return items_; }

  // A part of check(). In a composition an element may also be off by three times what rounding the results of the
  // operators inside moves it; this is computed only for a result that would be refused.
  Comparison compare_item(const Item& item, const Tensor& got) const;

 private:
  Comparison compare_elements(const Item& item, const Tensor& got) const;
  // Whether as many bits were kept as the baseline keeps: looks at the median of the errors, not at the largest.
  void compare_typical(const Item& item, const Tensor& got, Comparison& c) const;
  CallCheckResult check_items(const CallOutcome& outcome) const;
  // Rounds the results of the operators inside once more; false if that was done often enough.
  bool round_again() const;
  std::optional<CallFault> check_own_rule(const CallOutcome& outcome) const;

  const Node& tree_;
  const Workload workload_;
  const CallData& data_;
  Reference& reference_;
  Expected expected_;
  std::vector<Item> items_;
  std::string unusable_;
  BaselineRatios ratios_;
  // The farthest that each element of an item was moved by rounding, and how often it was done.
  mutable std::vector<std::vector<double>> moved_;
  mutable std::vector<double> moved_typically_;
  mutable int rounded_ = 0;
};

// The item's tensor among the results of a reference.
const View& reference_in(const Expected& expected, const CallTruth::Item& item);

// The tensor of an outcome that belongs to an item; null if it is missing.
const Tensor* written_tensor(const CallOutcome& outcome, const CallTruth::Item& item);

// Empty if two outcomes have the same bits in all written tensors; otherwise the name of a tensor that differs.
std::optional<std::string> differing_bits(const CallTruth& truth, const CallOutcome& a, const CallOutcome& b);

}  // namespace fk
