#include "ops/state.h"

#include <vector>

namespace fk {

TensorSpec state_tensor(const StateSpec& spec, const StateRoom& room, DType activations) {
  std::vector<int64_t> sizes;
  if (spec.per_token())
    sizes = {room.blocks, room.page_size};
  else
    sizes = {room.slots};
  for (int d = 0; d < spec.shape.rank(); ++d) sizes.push_back(spec.shape[d]);
  return {Shape(sizes), spec.dtype.value_or(activations)};
}

}  // namespace fk
