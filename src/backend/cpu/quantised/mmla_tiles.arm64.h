// Quantised products of many rows of x with SMMLA: tiles of 6 tokens by 8 rows of weights.
//
// SMMLA multiplies eight codes of two tokens by eight codes of two rows. A Neoverse-V1 starts four in a cycle, but
// writes six vector registers in a cycle at most, loads included: of all tiles whose sums fit in registers, those of 6
// tokens by 8 rows load the least for each product.
#pragma once

#include "backend/cpu/quantised/neon_tiles.arm64.h"

namespace fk {

struct MmlaTiles {
  static constexpr int64_t kTokens = 6;
  static constexpr bool kPrefetchPanels = true;  // of CPUs that have SMMLA
  // Scales lie between the codes; `scales` is not set.
  static PackedRows pack(const RoundedRows& x, Arena& arena, ThreadPool& pool);
  static int64_t scratch_bytes(int64_t tiles);
  static const float* multiply(const TilesTask& task);
};

}  // namespace fk
