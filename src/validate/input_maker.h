// InputMaker: where the inputs of judged and timed calls come from: what the operator's contract makes of a workload,
// unless somebody (a scenario recorded from a real run) knows more of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/materialize.h"

namespace fk {

using SharedParams = std::shared_ptr<const std::vector<Tensor>>;

class InputMaker {
 public:
  virtual ~InputMaker() = default;

  // The weights that a seed gives.
  virtual SharedParams params(const Node& root, uint64_t seed) const;

  // What a call of `root` with this workload is given, and how it is filled.
  virtual Inputs specs(const Node& root, const Workload& workload) const;
  // What lies between the rows of each, in elements; empty: nothing.
  virtual std::vector<int64_t> row_gaps() const { return {}; }

  // The call itself, without weights: equal seeds make equal calls.
  CallData make(const Node& root, const Workload& workload, uint64_t seed) const;
  // Its tensors without their content.
  CallData make_shapes(const Node& root, const Workload& workload) const;

  // Whether there is a call whose values are known instead of drawn. It has the workload the maker was made for.
  virtual bool has_recorded() const { return false; }
  // That call; what is not known of it is drawn from the seed.
  virtual CallData make_recorded(const Node& root, const Workload& workload, uint64_t seed) const {
    return make(root, workload, seed);
  }
};

// As the contract says.
const InputMaker& contract_inputs();

}  // namespace fk
