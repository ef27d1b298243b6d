// `ternary_linear` with SDOT.
#include "ops/l1/ternary_linear.h"

#include "backend/cpu/quantised/panel_product.h"
#include "ops/register.h"

namespace fk {
namespace {

// BitNet rounds its activations itself (ops/l1/act_quant_int8.h); what it has rounded is multiplied exactly.
using TernaryLinearPanels = PanelProduct<TernaryLinear, true>;
FK_IMPLEMENTATION(TernaryLinear, TernaryLinearPanels, "cpu.neon_dot_panels", DeviceKind::kCpu, 10, without_panels);

}  // namespace
}  // namespace fk
