// RMSNorm on CUDA.
#include "ops/l1/rms_norm.h"

#include "backend/cuda/l1/norm_rows.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {
using RMSNormRowInRegisters = NormRowInRegisters<RMSNorm>;
FK_IMPLEMENTATION(RMSNorm, RMSNormRowInRegisters, "cuda.row_in_registers", DeviceKind::kCuda, 0, nullptr);
}  // namespace
}  // namespace fk::cuda
