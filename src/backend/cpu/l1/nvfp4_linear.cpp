// `nvfp4_linear` on any CPU.
#include "ops/l1/nvfp4_linear.h"

#include "backend/cpu/quantised/dequantised_product.h"
#include "ops/register.h"

namespace fk {
namespace {

using Nvfp4LinearDequantised = DequantisedProduct<Nvfp4Linear>;
FK_IMPLEMENTATION(Nvfp4Linear, Nvfp4LinearDequantised, "cpu.dequantise", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
