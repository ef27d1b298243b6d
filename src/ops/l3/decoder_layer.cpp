#include "ops/l3/decoder_layer.h"

#include <algorithm>

namespace fk {

OutputSpecs DecoderLayer::outputs(const Init&, Args given) { return {given[1]->spec(), given[1]->spec()}; }

Inputs DecoderLayer::inputs(const Init& init, const Workload& w) {
  Inputs inputs = AttentionBlock::inputs(init.attention, w);
  inputs.push_back(w.optional_inputs ? inputs[1] : std::nullopt);
  return inputs;
}

Cost DecoderLayer::cost(const Init& init, const Workload& w) {
  return cost_with(init.attention, MlpBlock::cost(init.mlp, w), w);
}

Cost DecoderLayer::cost_of_blocks(int64_t hidden_size, const Cost& a, const Cost& m, const Workload& w) {
  double stream = static_cast<double>(w.num_tokens() * hidden_size) * static_cast<double>(dtype_size(w.dtype));
  // Each part counts its input and output; of those four tensors only two, and the residual's two, enter or leave the
  // layer.
  return {.read_bytes = a.read_bytes + m.read_bytes - (w.optional_inputs ? 0 : stream),
          .written_bytes = a.written_bytes + m.written_bytes,
          .matrix_flops = a.matrix_flops + m.matrix_flops,
          .vector_flops = a.vector_flops + m.vector_flops,
          .matrix_speedup = std::max(a.matrix_speedup, m.matrix_speedup)};
}

Tolerance DecoderLayer::tolerance(const Init& init, DType dtype) {
  Tolerance t = with_rounded_activations(composed_tolerance(dtype, static_cast<double>(init.mlp.intermediate_size)),
                                         init.mlp.weight_format);
  return {2 * t.relative, 2 * t.of_scale};
}

}  // namespace fk
