#include "ops/l3/mamba_decoder_layer.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<MambaDecoderLayer>> MambaDecoderLayer::cases() {
  Init c{.mixer = {.hidden_size = 40, .intermediate_size = 80, .state_size = 16, .time_step_rank = 3}};
  // Sizes of kernels that read packs of 8 elements, few tokens.
  Init eights{.mixer = {.hidden_size = 72, .intermediate_size = 200, .state_size = 16, .time_step_rank = 24}};
  Init normed = eights, weighted = eights;
  normed.mixer.inner_norms = "plain";
  normed.mixer.conv_kernel = 3;
  normed.mixer.use_conv_bias = false;
  weighted.mixer.inner_norms = "weighted";
  weighted.mixer.use_bias = true;
  weighted.mixer.time_step_rank = 168;
  // The later layer first, as checks of layers try one case: a first layer's residual_out is a copy of its input.
  return {{"later layer", c, Workload::batch({{1, 33}, {4, 17}}, true)},
          {"first layer", c, Workload::batch({{1, 20}, {9, 0}})},
          {"decode, one sequence", eights, Workload::batch({{1, 33}}, true)},
          {"decode, first layer", eights, Workload::batch({{1, 20}, {1, 1}, {1, 70}})},
          {"few tokens, norms without weights", normed, Workload::batch({{1, 20}, {3, 5}, {2, 0}}, true)},
          {"few tokens, norms with weights", weighted, Workload::batch({{1, 9}, {1, 2}, {5, 3}}, true)}};
}

namespace {
using ComposedMambaDecoderLayer = ComposedOneBlockLayer<MambaDecoderLayer, MambaMixer>;
FK_COMPOSITION(MambaDecoderLayer, ComposedMambaDecoderLayer);
}  // namespace
}  // namespace fk
