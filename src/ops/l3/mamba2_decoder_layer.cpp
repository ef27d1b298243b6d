#include "ops/l3/mamba2_decoder_layer.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<Mamba2DecoderLayer>> Mamba2DecoderLayer::cases() {
  Init c{
      .mixer = {
          .hidden_size = 48, .num_heads = 6, .head_dim = 16, .state_size = 16, .n_groups = 2, .norm_group_size = 48}};
  // The later layer first, as checks of layers try one case: a first layer's residual_out is a copy of its input.
  return {{"later layer", c, Workload::batch({{1, 33}, {4, 17}}, true)},
          {"first layer", c, Workload::batch({{1, 20}, {9, 0}})}};
}

namespace {
using ComposedMamba2DecoderLayer = ComposedOneBlockLayer<Mamba2DecoderLayer, Mamba2Mixer>;
FK_COMPOSITION(Mamba2DecoderLayer, ComposedMamba2DecoderLayer);
}  // namespace
}  // namespace fk
