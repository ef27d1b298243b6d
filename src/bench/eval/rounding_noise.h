// Makes a model round in another way: how far a correct kernel's outputs can be from the baseline's.
//
// Between batch sizes a baseline may compute every sum in the same order and round at the same places, so its own
// differences say nothing about kernels that do not. Here every weight of a norm, and every bias, moves to one of its
// two neighbours in the dtype. The outputs of all norms then differ in their last bit, as if each of them had been
// rounded in another way.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model.h"

namespace fk {

class RoundingNoise {
 public:
  // Binds the model to the changed weights. Whatever was recorded or packed for the model before must not be used
  // again; the model must not be used after this object.
  RoundingNoise(const Model& model, uint64_t seed);

  size_t changed() const { return changed_.size(); }  // tensors

 private:
  std::vector<Tensor> changed_;
};

}  // namespace fk
