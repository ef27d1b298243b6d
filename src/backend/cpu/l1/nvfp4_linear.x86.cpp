// `nvfp4_linear` with AVX-512 VNNI, and AMX for many tokens.
#include "ops/l1/nvfp4_linear.h"

#include "backend/cpu/quantised/widened_panels.x86.h"
#include "ops/register.h"

namespace fk {
namespace {

using Nvfp4LinearPanels = WidenedPanelProduct<Nvfp4Linear>;
FK_IMPLEMENTATION(Nvfp4Linear, Nvfp4LinearPanels, "cpu.avx512_vnni_panels", DeviceKind::kCpu, 10, without_panels);

}  // namespace
}  // namespace fk
