#include "ops/l2/attention_block.h"

#include "ops/formats/format_map.h"
#include "ops/formats/weight_format.h"

namespace fk {

Attention::Init AttentionBlock::core(const Init& init) {
  return {.num_heads = rank_share(init.num_heads, init.tp_size, "attention heads"),
          .head_size = init.head_dim,
          .scale = init.scale > 0 ? init.scale : 1 / std::sqrt(static_cast<double>(init.head_dim)),
          .num_kv_heads = rank_kv_heads(init.num_kv_heads, init.tp_size),
          .sliding_window = init.sliding_window};
}

RotaryEmbedding::Init AttentionBlock::rotary(const Init& init) {
  return {.head_size = init.head_dim,
          .rotary_dim = init.rotary_dim > 0 ? init.rotary_dim : init.head_dim,
          .max_position_embeddings = init.max_position,
          .base = init.rope_theta,
          .is_neox_style = init.is_neox_style,
          .rope_scaling = init.rope_scaling,
          .dtype = init.dtype};
}

std::string AttentionBlock::qkv_format(const Init& init) {
  return format_of_modules(init.weight_format, {"q_proj", "k_proj", "v_proj"});
}

std::string AttentionBlock::output_format(const Init& init) { return format_of_module(init.weight_format, "o_proj"); }

OutputSpecs AttentionBlock::outputs(const Init&, Args given) { return {given[1]->spec()}; }

Inputs AttentionBlock::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens()}, DType::kI64}, Generator::metadata(Generator::Kind::kPositions)},
          InputSpec{{{w.num_tokens(), init.hidden_size}, w.dtype}, Generator::normal()}};
}

Cost AttentionBlock::cost_with(const Init& init, const Attention::Init& rank, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.hidden_size);
  auto q = static_cast<double>(rank.num_heads * init.head_dim),
       kv = static_cast<double>(rank.num_kv_heads * init.head_dim);
  auto size = static_cast<double>(dtype_size(w.dtype));
  Cost cost = Attention::cost(rank, w);
  std::vector<std::string> formats = formats_of_parts(qkv_format(init), 3);
  int64_t heads = rank.num_heads * init.head_dim, kv_heads = rank.num_kv_heads * init.head_dim;
  cost.read_bytes += matrix_bytes(formats[0], heads, init.hidden_size, w.dtype) +
                     matrix_bytes(formats[1], kv_heads, init.hidden_size, w.dtype) +
                     matrix_bytes(formats[2], kv_heads, init.hidden_size, w.dtype) +
                     matrix_bytes(output_format(init), init.hidden_size, heads, w.dtype) + size * T * D;
  if (!init.weight_format.empty()) cost.matrix_speedup = kInt8Speedup;
  cost.written_bytes += size * T * D;
  // Queries, new keys and values, and the output of attention are intermediates that need not go through memory.
  cost.read_bytes -= size * T * (q + 2 * kv);
  cost.written_bytes -= size * T * q;
  cost.matrix_flops += 2 * T * D * (2 * q + 2 * kv);
  return cost;
}

Tolerance AttentionBlock::tolerance(const Init& init, DType dtype) {
  return with_rounded_activations(composed_tolerance(dtype, static_cast<double>(init.hidden_size)), init.weight_format);
}

}  // namespace fk
