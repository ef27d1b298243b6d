// What the encoders of all families have in common: their two outputs, and the batches they are tested with.
#pragma once

#include "ops/contract.h"

namespace fk {

// last_hidden_state [T, D], and pooler_output [S, D] where the model has a pooling head.
OutputSpecs encoder_outputs(int64_t tokens, int64_t sequences, int64_t hidden_size, bool has_pooler, DType dtype);
// Rounding errors of the layers add up like independent errors.
Tolerance encoder_tolerance(int64_t intermediate_size, int64_t layers, DType dtype);
// Adds the cost of a layer to that of a model, in which tensors between layers need not go through memory.
void add_inner_layer(Cost& model, const Cost& layer, double stream_bytes);

}  // namespace fk
