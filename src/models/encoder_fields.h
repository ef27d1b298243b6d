// The parts of config.json that encoders share, and what they state of themselves.
#pragma once

#include "models/family_fields.h"

namespace fk {

struct EncoderDimensions {
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  double layer_norm_eps = 0;
  std::string hidden_act;
};

// Values that the file leaves out are those of `defaults`. Refuses quantised weights, heads that do not divide the
// hidden size, and activations that the operator `activation` does not have.
EncoderDimensions read_encoder(const FamilyFields& fields, const EncoderDimensions& defaults);

}  // namespace fk
