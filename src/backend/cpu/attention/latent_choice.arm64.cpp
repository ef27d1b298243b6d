#include "backend/cpu/attention/latent.h"
#include "core/cpu_features.h"

namespace fk {

const PrefillKernel& latent_kernel(DType dtype) {
  return dtype == DType::kBF16 && cpu_features().neon_bf16 ? kPrefillNeonBf16 : kPrefillTiles;
}

}  // namespace fk
