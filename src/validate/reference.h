// Reference: computes an operator's call with its oracles in float64, in the judge's own process.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/thread_pool.h"
#include "ops/materialize.h"
#include "ops/registry.h"

namespace fk {

// The arguments of forward after the call (inputs too, as the oracle read them) and the context's states. Floats are
// f64.
struct Expected {
  std::vector<std::optional<Tensor>> args;
  std::vector<Tensor> states;

  std::vector<OptView> views() const;
};

class Reference {
 public:
  // `init` is that of the judged operator; its dtype, if it has one, becomes f64. `largest` is the largest call.
  Reference(const OperatorInfo& info, const Fields& init, const Workload& largest);
  ~Reference();

  // Weights in the order of collect_params, in the judged dtype. Their rounded values are converted to f64 copies.
  void bind(std::span<const Tensor> params);
  // Replaces weight i, after bind.
  void replace(size_t i, const Tensor& param);

  // Inputs and states are converted from the rounded values in `data`.
  Expected compute(const CallData& data) { return compute(data, nullptr); }
  // The same, with the results of the operators inside rounded to `dtype` at random (inner_rounding.h).
  Expected compute_rounded(const CallData& data, DType dtype, uint64_t seed);

 private:
  Expected compute(const CallData& data, CallObserver* observer);

  const OperatorInfo& info_;
  std::unique_ptr<Node> tree_;
  std::vector<Tensor> params_;
  ThreadPool pool_;
};

// Estimated time of the oracle in seconds, from the operator's cost; right within a factor of about three.
double reference_seconds(const OperatorInfo& info, const Fields& init, const Workload& workload);

// The workload itself if the oracle takes at most `seconds`; otherwise one like it with fewer sequences, fewer new
// tokens and shorter contexts. Less than a few tokens in two sequences tests little, so it shrinks below that only if
// they would take eight times as long.
Workload shrink(const OperatorInfo& info, const Fields& init, Workload workload, double seconds);

// The same fields, with every constructor argument named "dtype" set.
Fields with_dtype(Fields init, DType dtype);

}  // namespace fk
