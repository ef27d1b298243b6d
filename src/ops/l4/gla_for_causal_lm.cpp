#include "ops/l4/gla_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {
namespace {
using ComposedGLAForCausalLM = ComposedCausalLM<GLAForCausalLM, GLABlock, RMSNorm>;
FK_COMPOSITION(GLAForCausalLM, ComposedGLAForCausalLM);
}  // namespace
}  // namespace fk
