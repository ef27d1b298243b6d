#include "ops/l3/gla_block.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<GLABlock>> GLABlock::cases() {
  Init c{.attention = {.hidden_size = 64, .num_heads = 2, .num_kv_heads = 2, .head_k_dim = 16, .head_v_dim = 32},
         .mlp = {.hidden_size = 64, .intermediate_size = 176}};
  return {{"first layer", c, Workload::batch({{1, 20}, {9, 0}})},
          {"later layer", c, Workload::batch({{1, 33}, {4, 17}}, true)}};
}

namespace {
using ComposedGLABlock = ComposedLinearAttentionLayer<GLABlock, GatedLinearAttention>;
FK_COMPOSITION(GLABlock, ComposedGLABlock);
}  // namespace
}  // namespace fk
