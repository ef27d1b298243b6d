#include "ops/l4/ret_net_for_causal_lm.h"

#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {
namespace {
using ComposedRetNetForCausalLM = ComposedCausalLM<RetNetForCausalLM, RetNetBlock, RMSNorm>;
FK_COMPOSITION(RetNetForCausalLM, ComposedRetNetForCausalLM);
}  // namespace
}  // namespace fk
