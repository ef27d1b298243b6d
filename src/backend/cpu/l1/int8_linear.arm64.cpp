// `int8_linear` with SDOT.
#include "ops/l1/int8_linear.h"

#include "backend/cpu/quantised/panel_product.h"
#include "ops/register.h"

namespace fk {
namespace {

using Int8LinearPanels = PanelProduct<Int8Linear>;
FK_IMPLEMENTATION(Int8Linear, Int8LinearPanels, "cpu.neon_dot_panels", DeviceKind::kCpu, 10, without_panels);

}  // namespace
}  // namespace fk
