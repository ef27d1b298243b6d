#include "validate/input_maker.h"

namespace fk {

Inputs InputMaker::specs(const Node& root, const Workload& workload) const {
  return root.info().inputs(root.init(), workload);
}

CallData InputMaker::make(const Node& root, const Workload& workload, uint64_t seed) const {
  return make_call_inputs(root, specs(root, workload), workload, std::make_shared<BatchMetadata>(workload, seed), seed);
}

const InputMaker& contract_inputs() {
  static const InputMaker maker;
  return maker;
}

}  // namespace fk
