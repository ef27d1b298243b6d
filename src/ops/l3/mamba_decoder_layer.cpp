#include "ops/l3/mamba_decoder_layer.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<MambaDecoderLayer>> MambaDecoderLayer::cases() {
  Init c{.mixer = {.hidden_size = 40, .intermediate_size = 80, .state_size = 16, .time_step_rank = 3}};
  // The later layer first, as checks of layers try one case: a first layer's residual_out is a copy of its input.
  return {{"later layer", c, Workload::batch({{1, 33}, {4, 17}}, true)},
          {"first layer", c, Workload::batch({{1, 20}, {9, 0}})}};
}

namespace {
using ComposedMambaDecoderLayer = ComposedOneBlockLayer<MambaDecoderLayer, MambaMixer>;
FK_COMPOSITION(MambaDecoderLayer, ComposedMambaDecoderLayer);
}  // namespace
}  // namespace fk
