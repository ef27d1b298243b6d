// `ternary_linear` with AVX-512 VNNI, and AMX for many tokens.
#include "ops/l1/ternary_linear.h"

#include "backend/cpu/quantised/widened_panels.x86.h"
#include "ops/register.h"

namespace fk {
namespace {

// BitNet rounds its activations itself (ops/l1/act_quant_int8.h); what it has rounded is multiplied exactly by
// VPDPBUSD. For many tokens the matrix's scale is rounded to bf16.
using TernaryLinearPanels = WidenedPanelProduct<TernaryLinear, true>;
FK_IMPLEMENTATION(TernaryLinear, TernaryLinearPanels, "cpu.avx512_vnni_panels", DeviceKind::kCpu, 10, without_panels);

}  // namespace
}  // namespace fk
