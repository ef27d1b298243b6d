#include "ops/l3/sparse_decoder_layer.h"

namespace fk {

Cost SparseDecoderLayer::cost(const Init& init, const Workload& w) {
  return DecoderLayer::cost_with(
      init.attention, init.has_experts() ? SparseMoeBlock::cost(init.moe, w) : MlpBlock::cost(init.mlp, w), w);
}

Tolerance SparseDecoderLayer::tolerance(const Init& init, DType dtype) {
  Tolerance t = init.has_experts() ? SparseMoeBlock::tolerance(init.moe, dtype) : MlpBlock::tolerance(init.mlp, dtype);
  return {2 * t.relative, 2 * t.of_scale};
}

}  // namespace fk
