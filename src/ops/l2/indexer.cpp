#include "ops/l2/indexer.h"

#include <cmath>

#include "ops/formats/format_map.h"
#include "ops/formats/weight_format.h"
#include "ops/l1/attention_oracle.h"
#include "ops/l1/indexer_k_cache.h"
#include "ops/l1/layer_norm.h"
#include "ops/l1/paged_mqa_logits.h"
#include "ops/l1/rotary_emb.h"
#include "ops/l1/top_k_per_row.h"
#include "ops/l2/gate_linear.h"
#include "ops/l2/replicated_linear.h"
#include "ops/register.h"

namespace fk {

std::vector<StateSpec> Indexer::states(const Init& init) {
  return {{"k_cache", StateKind::kPerToken, {init.head_dim}}};
}

OutputSpecs Indexer::outputs(const Init& init, Args given) {
  return {TensorSpec{{given[0]->size(0), init.top_k}, DType::kI32}};
}

Inputs Indexer::inputs(const Init& init, const Workload& w) {
  auto rows = [&](int64_t width) { return InputSpec{{{w.num_tokens(), width}, w.dtype}, Generator::normal()}; };
  return {InputSpec{{{w.num_tokens()}, DType::kI64}, Generator::metadata(Generator::Kind::kPositions)},
          rows(init.hidden_size), rows(init.q_lora_rank)};
}

Cost Indexer::cost(const Init& init, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.hidden_size),
       H = static_cast<double>(init.num_heads), head = static_cast<double>(init.head_dim),
       lora = static_cast<double>(init.q_lora_rank), size = static_cast<double>(dtype_size(w.dtype));
  double context = 0, pairs = 0;
  for (const Sequence& s : w.sequences) {
    context += static_cast<double>(s.context_len);
    pairs += attended_pairs(s.query_len, s.context_len, {});
  }
  return {.read_bytes = size * (context * head + T * (D + lora) + H * D) +
                        matrix_bytes(format_of_module(init.weight_format, "wq_b"), init.num_heads * init.head_dim,
                                     init.q_lora_rank, w.dtype) +
                        matrix_bytes(format_of_module(init.weight_format, "wk"), init.head_dim, init.hidden_size, w.dtype),
          .written_bytes = T * (size * head + 4 * static_cast<double>(init.top_k)),
          .matrix_flops = 2 * pairs * H * head + 2 * T * (H * head * lora + head * D + H * D),
          .vector_flops = 2 * pairs * H,
          .matrix_speedup = init.weight_format.empty() ? 1 : kInt8Speedup};
}

Tolerance Indexer::tolerance(const Init& init, DType dtype) {
  return with_rounded_activations(composed_tolerance(dtype, static_cast<double>(init.hidden_size)), init.weight_format);
}

std::vector<Case<Indexer>> Indexer::cases() {
  // As many keys as are seen: with fewer, rounding could change the choice, and then the reference chooses others. The
  // last two have so few queries that none of them sees two keys so alike.
  Init c{.hidden_size = 48, .q_lora_rank = 24, .num_heads = 16, .head_dim = 16, .rope_dim = 8, .top_k = 64};
  Init odd{.hidden_size = 44,
           .q_lora_rank = 31,
           .num_heads = 5,
           .head_dim = 27,
           .rope_dim = 6,
           .top_k = 41,
           .is_neox_style = false};
  Init few = c, few_odd = odd;
  few.top_k = 2;
  few_odd.top_k = 1;
  return {
      {"mixed", c, Workload::batch({{1, 20}, {1, 3}, {9, 0}, {4, 17}})},
      {"odd", odd, Workload::batch({{1, 33}, {7, 0}, {3, 38}})},
      {"some of the keys", few, Workload::batch({{1, 5}, {1, 8}, {2, 3}})},
      {"one of the keys", few_odd, Workload::batch({{1, 9}, {1, 4}, {2, 6}})},
  };
}

namespace {

class ComposedIndexer final : public Indexer {
 public:
  ComposedIndexer(const Init& init, Builder& builder)
      : Indexer(init),
        wq_b(builder.child<ReplicatedLinear>("wq_b", {.input_size = init.q_lora_rank,
                                                      .output_size = init.num_heads * init.head_dim,
                                                      .weight_format = format_of_module(init.weight_format, "wq_b"),
                                                      .dtype = init.dtype})),
        wk(builder.child<ReplicatedLinear>("wk", {.input_size = init.hidden_size,
                                                  .output_size = init.head_dim,
                                                  .weight_format = format_of_module(init.weight_format, "wk"),
                                                  .dtype = init.dtype})),
        k_norm(builder.child<LayerNorm>(
            "k_norm", {.hidden_size = init.head_dim, .eps = 1e-6, .bias = true, .dtype = init.dtype})),
        weights_proj(builder.child<GateLinear>(
            "weights_proj", {.input_size = init.hidden_size, .output_size = init.num_heads, .dtype = init.dtype})),
        rotary_emb(builder.child<RotaryEmbedding>("rotary_emb", {.head_size = init.head_dim,
                                                                 .rotary_dim = init.rope_dim,
                                                                 .max_position_embeddings = init.max_position,
                                                                 .base = init.rope_theta,
                                                                 .is_neox_style = init.is_neox_style,
                                                                 .rope_scaling = init.rope_scaling,
                                                                 .dtype = init.dtype})),
        store(builder.child<IndexerKCache>("indexer_k_cache", {.head_dim = init.head_dim})),
        logits(builder.child<PagedMQALogits>(
            "logits", {.num_heads = init.num_heads,
                       .head_dim = init.head_dim,
                       .scale = 1 / std::sqrt(static_cast<double>(init.head_dim * init.num_heads))})),
        top_k(builder.child<TopKPerRow>("top_k", {.top_k = init.top_k})) {}

  void forward(Context& ctx, View positions, View hidden_states, View q_c, View topk_indices) override {
    const AttentionMetadata& batch = *ctx.attention;
    const View& k_cache = own_state(ctx, 0);
    View q = std::get<0>(wq_b(ctx, q_c));
    View k = std::get<0>(k_norm(ctx, std::get<0>(wk(ctx, hidden_states))));
    rotary_emb(ctx, positions, q, k);
    store(ctx, k, k_cache, batch.slot_mapping);
    View weights = weights_proj(ctx, hidden_states), heads = q.split_last(init_.num_heads, init_.head_dim);
    int64_t decoding = batch.decode.num_tokens, prefilling = batch.prefill.num_tokens;
    auto choose = [&](const SequenceGroup& group, int64_t first, int64_t tokens, OptView starts) {
      View wanted = logits(ctx, heads.narrow(0, first, tokens), k_cache, weights.narrow(0, first, tokens),
                           group.seq_lens, group.block_table, starts);
      top_k.into(ctx, wanted, positions.narrow(0, first, tokens), topk_indices.narrow(0, first, tokens));
    };
    if (decoding > 0) choose(batch.decode, 0, decoding, OptView());
    if (prefilling > 0) choose(batch.prefill, decoding, prefilling, batch.prefill.cu_seqlens_q);
  }

 private:
  Op<ReplicatedLinear> wq_b, wk;
  Op<LayerNorm> k_norm;
  Op<GateLinear> weights_proj;
  Op<RotaryEmbedding> rotary_emb;
  Op<IndexerKCache> store;
  Op<PagedMQALogits> logits;
  Op<TopKPerRow> top_k;
};

FK_COMPOSITION(Indexer, ComposedIndexer);

}  // namespace
}  // namespace fk
