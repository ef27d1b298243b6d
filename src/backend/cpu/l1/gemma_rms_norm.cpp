// GemmaRMSNorm on CPU.
#include "ops/l1/gemma_rms_norm.h"

#include "backend/cpu/l1/norm_rows.h"
#include "ops/register.h"

namespace fk {
namespace {
using GemmaRMSNormRowPerThread = NormRowPerThread<GemmaRMSNorm>;
FK_IMPLEMENTATION(GemmaRMSNorm, GemmaRMSNormRowPerThread, "cpu.row_per_thread", DeviceKind::kCpu, 0, nullptr);
}  // namespace
}  // namespace fk
