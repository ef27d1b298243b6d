// `int4_linear` with SDOT.
#include "ops/l1/int4_linear.h"

#include "backend/cpu/quantised/panel_product.h"
#include "ops/register.h"

namespace fk {
namespace {

using Int4LinearPanels = PanelProduct<Int4Linear>;
FK_IMPLEMENTATION(Int4Linear, Int4LinearPanels, "cpu.neon_dot_panels", DeviceKind::kCpu, 10, without_panels);

}  // namespace
}  // namespace fk
