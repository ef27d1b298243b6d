// `ternary_linear` on any CPU.
#include "ops/l1/ternary_linear.h"

#include "backend/cpu/quantised/dequantised_product.h"
#include "ops/register.h"

namespace fk {
namespace {

using TernaryLinearDequantised = DequantisedProduct<TernaryLinear>;
FK_IMPLEMENTATION(TernaryLinear, TernaryLinearDequantised, "cpu.dequantise", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
