#include "cli/kernels_baseline.h"

#include "ops/registry.h"

namespace fk {

bool only_oracles(std::span<const RunnerDispatch> baseline) {
  bool oracle = false;
  for (const RunnerDispatch& d : baseline) {
    const OperatorInfo* op = Registry::instance().find(d.op);
    if (op == nullptr) return false;
    for (const ImplementationInfo& i : op->implementations) {
      if (i.name != d.implementation || i.any_device) continue;
      if (!i.is_oracle) return false;
      oracle = true;
    }
  }
  return oracle;
}

}  // namespace fk
