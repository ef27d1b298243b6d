// `int4_linear` on any CPU.
#include "ops/l1/int4_linear.h"

#include "backend/cpu/quantised/dequantised_product.h"
#include "ops/register.h"

namespace fk {
namespace {

using Int4LinearDequantised = DequantisedProduct<Int4Linear>;
FK_IMPLEMENTATION(Int4Linear, Int4LinearDequantised, "cpu.dequantise", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
