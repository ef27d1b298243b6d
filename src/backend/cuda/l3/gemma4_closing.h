// The end of a layer of Gemma 4: the norms of both blocks and of their sum, the residual, and the layer's number.
#pragma once

#include <string_view>

#include "core/tensor.h"

namespace fk::cuda {

struct Gemma4Closing {
  View mlp;                                  // [T, D]
  OptView experts = {};                      // [T, D]; without them the feed-forward block has no norm of its own
  OptView mlp_norm = {}, experts_norm = {};  // [D]
  View norm;                                 // [D], of the sum of both
  double eps = 0;                            // of all norms
  View residual;                             // [T, D]
  View scalar;                               // [1]
  View out;                                  // [T, D]
};

// Why it is not supported; empty if it is. Tensors without data count as aligned.
std::string_view gemma4_closing_refusal(const Gemma4Closing& call);
void gemma4_closing(const Gemma4Closing& call, void* stream);

}  // namespace fk::cuda
