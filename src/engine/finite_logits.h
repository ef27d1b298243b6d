// Checks logits for NaN and infinity: an error that names the cause, instead of an endless output of token 0.
#pragma once

#include <string_view>

#include "engine/model.h"

namespace fk {

// Checks all logits [S, V], on the model's device. Throws Error with the first tensor of the checkpoint that holds a
// NaN or an infinity, or says that all weights are fine.
void require_finite_logits(const Model& model, const View& logits);

// The same of an encoder's output; `what` names it in the error.
void require_finite(const Model& model, const View& values, std::string_view what);

// The same after a step that sampled `token` for row `row`. On the CPU only the token's logit is checked: after the
// first step a NaN affects all logits of a row. On other devices nothing is checked.
void require_finite_draw(const Model& model, const View& logits, int64_t row, int64_t token);

}  // namespace fk
