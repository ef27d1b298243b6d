#include "ops/l3/mamba2_decoder_layer.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<Mamba2DecoderLayer>> Mamba2DecoderLayer::cases() {
  Init c{
      .mixer = {
          .hidden_size = 48, .num_heads = 6, .head_dim = 16, .state_size = 16, .n_groups = 2, .norm_group_size = 48}};
  return {{"first layer", c, Workload::batch({{1, 20}, {9, 0}})},
          {"later layer", c, Workload::batch({{1, 33}, {4, 17}}, true)}};
}

namespace {
using ComposedMamba2DecoderLayer = ComposedOneBlockLayer<Mamba2DecoderLayer, Mamba2Mixer>;
FK_COMPOSITION(Mamba2DecoderLayer, ComposedMamba2DecoderLayer);
}  // namespace
}  // namespace fk
