#include "backend/cpu/attention/latent.h"

namespace fk {

const PrefillKernel& latent_kernel(DType) { return kPrefillTiles; }

}  // namespace fk
