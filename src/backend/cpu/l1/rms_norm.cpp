// RMSNorm on CPU.
#include "ops/l1/rms_norm.h"

#include "backend/cpu/l1/norm_rows.h"
#include "ops/register.h"

namespace fk {
namespace {
using RMSNormRowPerThread = NormRowPerThread<RMSNorm>;
FK_IMPLEMENTATION(RMSNorm, RMSNormRowPerThread, "cpu.row_per_thread", DeviceKind::kCpu, 0, nullptr);
}  // namespace
}  // namespace fk
