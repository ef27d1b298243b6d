// `int8_linear` with AVX-512 VNNI, and AMX for many tokens.
#include "ops/l1/int8_linear.h"

#include "backend/cpu/quantised/widened_panels.x86.h"
#include "ops/register.h"

namespace fk {
namespace {

using Int8LinearPanels = WidenedPanelProduct<Int8Linear>;
FK_IMPLEMENTATION(Int8Linear, Int8LinearPanels, "cpu.avx512_vnni_panels", DeviceKind::kCpu, 10, without_panels);

}  // namespace
}  // namespace fk
