#include "ops/l3/ret_net_block.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<RetNetBlock>> RetNetBlock::cases() { return linear_attention_layer_cases<RetNetBlock>(); }

namespace {
using ComposedRetNetBlock = ComposedLinearAttentionLayer<RetNetBlock, MultiScaleRetention>;
FK_COMPOSITION(RetNetBlock, ComposedRetNetBlock);
}  // namespace
}  // namespace fk
