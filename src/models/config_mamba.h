// What configs of models with state spaces have in common.
#pragma once

#include <vector>

#include "models/family.h"

namespace fk {

// A model without positions has no longest context; this is what it is given, and what --max-model-len can lower.
inline constexpr int64_t kContextWithoutPositions = 131072;

struct StateSpaceDefaults {
  bool tie_word_embeddings = true;
  int64_t state_size = 16;
};

// What models that consist of Mamba blocks have: sizes, eps, the dtype. Refuses quantised weights and other
// activations. intermediate_size is expand * hidden_size.
void read_state_space(const FamilyFields& fields, const StateSpaceDefaults& defaults, DecoderModelInit& init);

// time_step_rank: "auto" is a sixteenth of hidden_size, rounded up.
int64_t read_time_step_rank(const FamilyFields& fields, std::string_view key, int64_t hidden_size);

// Time steps that are brought into a range, which no published model does: time_step_limit other than (0, infinity).
// Infinity is text where JSON has no number for it.
void refuse_time_step_limit(const FamilyFields& fields);

// Names in checkpoints whose model is called "backbone".
std::vector<PackedModule> backbone_names();

}  // namespace fk
