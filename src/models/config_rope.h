// The rotary embedding's part of config.json, in the spellings of transformers 4 and 5.
#pragma once

#include "models/family_fields.h"

namespace fk {

inline constexpr double kMaxRopeTheta = 1e12;  // far beyond any in use (1e7), far below what loses precision
inline constexpr double kMaxRopeFactor = 1e6;

// What yarn multiplies sines and cosines by for contexts that are `factor` times as long, where no other is given.
double yarn_attention_factor(double factor);

// One set for all layers, whole heads rotated: sets rope_theta and rope_scaling. head_dim and max_position_embeddings
// must be set before, here as below.
void read_rope(const FamilyFields& fields, double default_theta, DecoderModelInit& init);

// The same where only a part of every head is rotated: returns how many of its elements.
int64_t read_partial_rope(const FamilyFields& fields, double default_theta, double default_factor,
                          DecoderModelInit& init);

// One set for global layers, into which rope_scaling is merged, and one for sliding layers, whose theta is returned.
double read_rope_by_kind_of_layer(const FamilyFields& fields, double default_theta, double default_local_theta,
                                  DecoderModelInit& init);

}  // namespace fk
