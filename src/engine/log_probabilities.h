// Log-probabilities of drawn tokens and of those of a prompt, from a row of logits on the host.
#pragma once

#include <span>

#include "engine/request.h"

namespace fk {

// Of the token that was drawn, and of the `top` most likely ones, best first; of equals the lower token first. The
// softmax is computed in double.
DrawnLogprobs log_probabilities(std::span<const float> logits, int64_t drawn, int top);
// The same of a token that was not drawn, with its rank.
DrawnLogprobs prompt_log_probabilities(std::span<const float> logits, int64_t token, int top);

}  // namespace fk
