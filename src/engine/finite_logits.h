// Logits that are not numbers: an error that names the cause, instead of token 0 again and again.
#pragma once

#include "engine/model.h"

namespace fk {

// logits [S, V] on the model's device, of which all are looked at. Throws Error with the first tensor of the checkpoint
// that holds a NaN or an infinity, or says that all weights are fine.
void require_finite_logits(const Model& model, const View& logits);

// The same after a step that drew `token` for row `row`. On the CPU only the token's logit is looked at: whatever makes
// one of a row's logits a NaN after the first step makes all of them NaNs. On other devices nothing is.
void require_finite_draw(const Model& model, const View& logits, int64_t row, int64_t token);

}  // namespace fk
