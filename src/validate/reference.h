// Reference: an operator's call computed by its oracles in float64, in the judge's own process.
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
  // `init` is that of the operator judged; its dtype, where it has one, becomes f64.
  Reference(const OperatorInfo& info, const Fields& init);
  ~Reference();

  // Weights as collect_params lists them, in the dtype judged. Widened from their rounded values into memory of its
  // own.
  void bind(std::span<const Tensor> params);
  // Another one in the place of weight i, after bind.
  void replace(size_t i, const Tensor& param);

  // Inputs and states are widened from the rounded values in `data`.
  Expected compute(const CallData& data);

 private:
  const OperatorInfo& info_;
  std::unique_ptr<Node> tree_;
  std::vector<Tensor> params_;
  ThreadPool pool_;
};

// Seconds the oracle will take, from the operator's cost. Right to a factor of three or so.
double reference_seconds(const OperatorInfo& info, const Fields& init, const Workload& workload);

// The workload itself where the oracle needs no longer than `seconds`, else one like it with fewer sequences, fewer new
// tokens and shorter contexts. Below a few tokens in two sequences it goes only when those would take eight times as
// long, since less tells little.
Workload shrink(const OperatorInfo& info, const Fields& init, Workload workload, double seconds);

// The same fields, with every constructor argument named "dtype" set.
Fields with_dtype(Fields init, DType dtype);

}  // namespace fk
