#include "engine/rank_agreement.h"

#include <algorithm>

#include "core/device_runtime.h"
#include "core/memory.h"

namespace fk {

int64_t least_of_all_ranks(int64_t value, const Model& model) {
  Communicator* ranks = model.communicator;
  if (ranks == nullptr || ranks->size() == 1) return value;
  Tensor own({1}, DType::kI64, model.device), all({ranks->size()}, DType::kI64, model.device);
  Tensor host_own({1}, DType::kI64), host_all({ranks->size()}, DType::kI64);
  *host_own.ptr<int64_t>() = value;
  copy_between(host_own, own);
  ranks->all_gather(own, all, model.device == kCpu ? nullptr : device_runtime(model.device).stream());
  copy_between(all, host_all);
  return *std::min_element(host_all.ptr<int64_t>(), host_all.ptr<int64_t>() + ranks->size());
}

}  // namespace fk
