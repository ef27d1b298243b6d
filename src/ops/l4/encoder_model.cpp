#include "ops/l4/encoder_model.h"

#include <cmath>

namespace fk {

OutputSpecs encoder_outputs(int64_t tokens, int64_t sequences, int64_t hidden_size, bool has_pooler, DType dtype) {
  std::optional<TensorSpec> pooled;
  if (has_pooler) pooled = TensorSpec{{sequences, hidden_size}, dtype};
  return {TensorSpec{{tokens, hidden_size}, dtype}, pooled};
}

Tolerance encoder_tolerance(int64_t intermediate_size, int64_t layers, DType dtype) {
  Tolerance t = composed_tolerance(dtype, static_cast<double>(intermediate_size));
  double factor = 2 * std::sqrt(static_cast<double>(layers));
  return {factor * t.relative, factor * t.of_scale};
}

void add_inner_layer(Cost& model, const Cost& layer, double stream_bytes) {
  model.read_bytes += layer.read_bytes - stream_bytes;
  model.written_bytes += layer.written_bytes - stream_bytes;
  model.matrix_flops += layer.matrix_flops;
  model.vector_flops += layer.vector_flops;
}

}  // namespace fk
