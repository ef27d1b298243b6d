#include "ops/l3/gla_block.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<GLABlock>> GLABlock::cases() { return linear_attention_layer_cases<GLABlock>(); }

namespace {
using ComposedGLABlock = ComposedLinearAttentionLayer<GLABlock, GatedLinearAttention>;
FK_COMPOSITION(GLABlock, ComposedGLABlock);
}  // namespace
}  // namespace fk
