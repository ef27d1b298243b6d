#include "ops/l3/ret_net_block.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<RetNetBlock>> RetNetBlock::cases() {
  Init c{.attention = {.hidden_size = 64, .num_heads = 2, .num_kv_heads = 2, .head_k_dim = 16, .head_v_dim = 32},
         .mlp = {.hidden_size = 64, .intermediate_size = 176}};
  Init wide{.attention = {.hidden_size = 128, .num_heads = 4, .num_kv_heads = 2, .head_k_dim = 72, .head_v_dim = 40},
            .mlp = {.hidden_size = 128, .intermediate_size = 264, .bias = true}};
  wide.attention.gate_low_rank_dim = 9;
  wide.attention.clamp_min = -0.25;
  Init plain = c;
  plain.attention.use_output_gate = false;
  return {
      {"first layer", c, Workload::batch({{1, 20}, {9, 0}})},
      {"later layer", c, Workload::batch({{1, 33}, {4, 17}}, true)},
      {"first layer, decode, no gate", plain, Workload::batch({{1, 20}, {1, 3}, {1, 7}})},
      {"later layer, decode", wide, Workload::batch({{1, 33}}, true)},
      {"eight tokens of decoding and prompts", wide, Workload::batch({{1, 9}, {1, 2}, {1, 0}, {3, 0}, {2, 17}}, true)}};
}

namespace {
using ComposedRetNetBlock = ComposedLinearAttentionLayer<RetNetBlock, MultiScaleRetention>;
FK_COMPOSITION(RetNetBlock, ComposedRetNetBlock);
}  // namespace
}  // namespace fk
