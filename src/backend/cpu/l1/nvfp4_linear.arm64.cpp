// `nvfp4_linear` with SDOT.
#include "ops/l1/nvfp4_linear.h"

#include "backend/cpu/quantised/panel_product.h"
#include "ops/register.h"

namespace fk {
namespace {

using Nvfp4LinearPanels = PanelProduct<Nvfp4Linear>;
FK_IMPLEMENTATION(Nvfp4Linear, Nvfp4LinearPanels, "cpu.neon_dot_panels", DeviceKind::kCpu, 10, without_panels);

}  // namespace
}  // namespace fk
