// The part of config.json that describes sparse latent attention, as DeepSeek V3.2 and GLM 5 spell it.
#pragma once

#include "models/config_experts.h"
#include "models/config_latent.h"
#include "ops/l4/sparse_latent_model.h"

namespace fk {

struct SparseLatentDefaults {
  DecoderDefaults decoder;
  LatentDefaults latent;
  GroupedExperts experts;
  int64_t index_n_heads = 0;
  int64_t index_head_dim = 128;
  int64_t index_topk = 2048;
};

// Everything in SparseLatentModelInit but index_is_neox_style.
void read_sparse_latent(const FamilyFields& fields, const SparseLatentDefaults& defaults, SparseLatentModelInit& init);

}  // namespace fk
