#include "ops/l2/eagle3_attention.h"

#include "ops/formats/weight_format.h"
#include "ops/l1/rms_norm.h"
#include "ops/register.h"

namespace fk {

OutputSpecs Eagle3Attention::outputs(const Init& init, Args given) {
  return {TensorSpec{{given[1]->size(0), init.hidden_size}, given[1]->dtype()}};
}

Inputs Eagle3Attention::inputs(const Init& init, const Workload& w) {
  Inputs inputs = AttentionBlock::inputs(init, w);
  inputs[1]->spec.shape = {w.num_tokens(), input_size(init)};
  return inputs;
}

Cost Eagle3Attention::cost(const Init& init, const Workload& w) {
  Cost cost = AttentionBlock::cost(init, w);
  // The other half of the input, and of the projections of queries, keys and values.
  const Attention::Init rank = core(init);
  const int64_t heads = (rank.num_heads + 2 * rank.num_kv_heads) * init.head_dim;
  const auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.hidden_size);
  cost.read_bytes += (T + static_cast<double>(heads)) * D * static_cast<double>(dtype_size(w.dtype));
  cost.matrix_flops += 2 * T * D * static_cast<double>(heads);
  return cost;
}

Tolerance Eagle3Attention::tolerance(const Init& init, DType dtype) {
  return composed_tolerance(dtype, static_cast<double>(input_size(init)));
}

std::vector<Case<Eagle3Attention>> Eagle3Attention::cases() {
  return {
      {"mixed",
       {.hidden_size = 64, .num_heads = 4, .num_kv_heads = 2, .head_dim = 16, .qk_norm = false},
       Workload::batch({{1, 20}, {9, 0}, {4, 17}})},
      {"bias, norms of heads",
       {.hidden_size = 36, .num_heads = 3, .num_kv_heads = 1, .head_dim = 12, .bias = true, .bias_o_proj = true},
       Workload::batch({{1, 20}, {7, 0}})},
  };
}

namespace {
using ComposedEagle3Attention = ComposedAttentionBlock<Eagle3Attention, RMSNorm, QkNorm::kEachHead>;
FK_COMPOSITION(Eagle3Attention, ComposedEagle3Attention);
}  // namespace
}  // namespace fk
