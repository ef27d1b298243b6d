// GemmaRMSNorm on CUDA.
#include "ops/l1/gemma_rms_norm.h"

#include "backend/cuda/l1/norm_rows.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {
using GemmaRMSNormRowInRegisters = NormRowInRegisters<GemmaRMSNorm>;
FK_IMPLEMENTATION(GemmaRMSNorm, GemmaRMSNormRowInRegisters, "cuda.row_in_registers", DeviceKind::kCuda, 0, nullptr);
}  // namespace
}  // namespace fk::cuda
