// `int8_linear` on any CPU.
#include "ops/l1/int8_linear.h"

#include "backend/cpu/quantised/dequantised_product.h"
#include "ops/register.h"

namespace fk {
namespace {

using Int8LinearDequantised = DequantisedProduct<Int8Linear>;
FK_IMPLEMENTATION(Int8Linear, Int8LinearDequantised, "cpu.dequantise", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
