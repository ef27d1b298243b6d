// InputMaker: generates the inputs of judged and timed calls, from the operator's contract and a workload. A scenario
// recorded from a real run replaces them by its own.
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

  // The weights for a seed.
  virtual SharedParams params(const Node& root, uint64_t seed) const;

  // The inputs of a call of `root` with this workload, and how they are filled.
  virtual Inputs specs(const Node& root, const Workload& workload) const;
  // Padding after each row of each input, in elements; empty: none.
  virtual std::vector<int64_t> row_gaps() const { return {}; }

  // The call itself, without weights: equal seeds give equal calls.
  CallData make(const Node& root, const Workload& workload, uint64_t seed) const;
  // Its tensors with undefined content.
  CallData make_shapes(const Node& root, const Workload& workload) const;

  // Whether there is a call with recorded values. It has the workload that the maker was made for.
  virtual bool has_recorded() const { return false; }
  // That call; values that were not recorded are generated from the seed.
  virtual CallData make_recorded(const Node& root, const Workload& workload, uint64_t seed) const {
    return make(root, workload, seed);
  }
};

// Inputs from the contract alone.
const InputMaker& contract_inputs();

}  // namespace fk
