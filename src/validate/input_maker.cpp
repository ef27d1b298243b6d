#include "validate/input_maker.h"

namespace fk {

SharedParams InputMaker::params(const Node& root, uint64_t seed) const {
  return std::make_shared<const std::vector<Tensor>>(make_params(root, seed));
}

Inputs InputMaker::specs(const Node& root, const Workload& workload) const {
  return root.info().inputs(root.init(), workload);
}

CallData InputMaker::make(const Node& root, const Workload& workload, uint64_t seed) const {
  auto batch = std::make_shared<BatchMetadata>(workload, seed);
  CallData data = make_call_inputs(root, specs(root, workload), workload, std::move(batch), seed);
  data.row_gaps = row_gaps();
  return data;
}

CallData InputMaker::make_shapes(const Node& root, const Workload& workload) const {
  auto batch = std::make_shared<BatchMetadata>(workload, 0);
  CallData data = make_call_shapes(root, specs(root, workload), workload, std::move(batch));
  data.row_gaps = row_gaps();
  return data;
}

const InputMaker& contract_inputs() {
  static const InputMaker maker;
  return maker;
}

}  // namespace fk
