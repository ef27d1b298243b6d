// `ternary_linear` with SDOT.
#include "ops/l1/ternary_linear.h"

#include "backend/cpu/quantised/panel_product.arm64.h"
#include "ops/register.h"

namespace fk {
namespace {

using TernaryLinearPanels = PanelProduct<TernaryLinear>;
FK_IMPLEMENTATION(TernaryLinear, TernaryLinearPanels, "cpu.neon_dot_panels", DeviceKind::kCpu, 10, without_sdot);

}  // namespace
}  // namespace fk
