#include "ops/l3/mamba_decoder_layer.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<MambaDecoderLayer>> MambaDecoderLayer::cases() {
  Init c{.mixer = {.hidden_size = 40, .intermediate_size = 80, .state_size = 16, .time_step_rank = 3}};
  return {{"first layer", c, Workload::batch({{1, 20}, {9, 0}})},
          {"later layer", c, Workload::batch({{1, 33}, {4, 17}}, true)}};
}

namespace {
using ComposedMambaDecoderLayer = ComposedOneBlockLayer<MambaDecoderLayer, MambaMixer>;
FK_COMPOSITION(MambaDecoderLayer, ComposedMambaDecoderLayer);
}  // namespace
}  // namespace fk
