// The attention block of DeepSeek V3.2 on CUDA for few tokens: all projections of the hidden states in one launch; the
// norm of the queries' latents with the projections of these; norms, rotations and stores; then the indexer's choice,
// attention and the output as their operators do them.
#include "ops/l2/deepseek_v32_mla_attention.h"

#include <cmath>

#include "backend/cuda/l1/latent_parts.h"
#include "backend/cuda/latent/rotate_store.h"
#include "backend/cuda/matmul/matmul.h"
#include "backend/cuda/matmul/stream_group.h"
#include "ops/l2/mla_projections.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class StreamedSparseMLA final : public DeepseekV32MLAAttention {
 public:
  explicit StreamedSparseMLA(const Init& init) : DeepseekV32MLAAttention(init), core_(core(init)) {
    if (!rotates()) return;
    const double factor = init.rope_scaling.attention_factor;
    frequencies_ = PairFrequencies::of(RotaryEmbedding::inverse_frequencies(DeepseekV2MLAAttention::rotary_k(init)),
                                       factor, init.is_neox_style);
    // Its pairs may be others, its frequencies are not.
    index_frequencies_ = frequencies_;
    index_frequencies_.halves = init.index_is_neox_style;
  }

  std::string_view refuse(Args args) const override {
    const View& x = *args[1];
    if (x.size(0) > kMostTokens) return "it takes at most 8 tokens";
    if (x.size(0) == 0) return "there are no tokens";
    if (std::string_view why = refuse_init(); !why.empty()) return why;
    if (!x.rows_contiguous() || !args[2]->rows_contiguous()) return "rows must be contiguous";
    if (x.dtype() != init_.dtype) return "x must have the dtype of the weights";
    if (!bound_) return {};  // refuse() may be called before weights are bound
    // Only the shapes of what lies between the launches matter here.
    auto nothing = [&](int64_t width, DType dtype) {
      return View(nullptr, Shape{x.size(0), width}, dtype, x.device());
    };
    const View down = nothing(init_.q_lora_rank, x.dtype()), queries = nothing(queries_size(), x.dtype()),
               values = nothing(values_size(), x.dtype()),
               latents = nothing(init_.num_heads * init_.kv_lora_rank, x.dtype())
                             .split_last(init_.num_heads, init_.kv_lora_rank);
    const std::array groups = {
        projecting(x, down, nothing(entry_size(), x.dtype()), nothing(init_.index_head_dim, x.dtype()),
                   nothing(init_.index_n_heads, DType::kF32)),
        raising(down, queries, nothing(index_size(), x.dtype())),
    };
    for (const StreamGroup& group : groups)
      if (std::string_view why = stream_group_refusal(group); !why.empty()) return why;
    if (std::string_view why = per_head_packs_refusal(absorb_queries(core_), kv_b_, keys_of(queries), latents);
        !why.empty())
      return why;
    return per_head_packs_refusal(project_values(core_), kv_b_, latents,
                                  values.split_last(init_.num_heads, init_.v_head_dim));
  }

  void bind_parts(const Operator::PartWeight& weight) override {
    if (!refuse_init().empty()) return;
    q_a_ = weight("q_a_proj.weight");
    q_a_norm_ = weight("q_a_layernorm.weight");
    q_b_ = weight("q_b_proj.weight");
    kv_a_ = weight("kv_a_proj_with_mqa.weight");
    kv_a_norm_ = weight("kv_a_layernorm.weight");
    kv_b_ = weight("kv_b_proj.weight");
    o_ = weight("o_proj.weight");
    if (init_.bias) {
      q_a_bias_ = weight("q_a_proj.bias");
      kv_a_bias_ = weight("kv_a_proj_with_mqa.bias");
      o_bias_ = weight("o_proj.bias");
    }
    index_q_ = weight("indexer.wq_b.weight");
    index_k_ = weight("indexer.wk.weight");
    index_norm_ = weight("indexer.k_norm.weight");
    index_norm_bias_ = weight("indexer.k_norm.bias");
    index_weights_ = weight("indexer.weights_proj.weight");
    bound_ = true;
  }

  void forward(Context& ctx, View positions, View hidden_states, View out) override {
    const AttentionMetadata& batch = *ctx.attention;
    const int64_t T = hidden_states.size(0), H = init_.num_heads;
    const View &index_cache = own_state(ctx, 0), &cache = own_state(ctx, 1);
    auto make = [&](int64_t width) { return ctx.arena.make({{T, width}, hidden_states.dtype()}); };
    View down = make(init_.q_lora_rank), entries = make(entry_size()), index_keys = make(init_.index_head_dim),
         weights = ctx.arena.make({{T, init_.index_n_heads}, DType::kF32});
    stream_group(projecting(hidden_states, down, entries, index_keys, weights), ctx.stream);
    View queries = make(queries_size()), index_queries = make(index_size());
    stream_group(raising(down, queries, index_queries), ctx.stream);
    latent_rotate_store({.queries = queries,
                         .head = init_.qk_head_dim(),
                         .nope = init_.qk_nope_head_dim,
                         .latents = entries,
                         .latent_norm = kv_a_norm_,
                         .latent_eps = init_.rms_norm_eps,
                         .cache = cache,
                         .index_queries = index_queries,
                         .index_keys = index_keys,
                         .index_norm = index_norm_,
                         .index_norm_bias = index_norm_bias_,
                         .index_eps = kIndexEps,
                         .index_cache = index_cache,
                         .positions = positions,
                         .slot_mapping = batch.slot_mapping,
                         .frequencies = frequencies_,
                         .index_frequencies = index_frequencies_},
                        ctx.stream);
    View latent_queries = ctx.arena.make({{T, H, init_.kv_lora_rank}, hidden_states.dtype()}),
         means = ctx.arena.make(latent_queries.spec()), values = make(values_size());
    View chosen = ctx.arena.make({{T, init_.index_topk}, DType::kI32});
    const View index_heads = index_queries.split_last(init_.index_n_heads, init_.index_head_dim),
               rotated =
                   queries.split_last(H, init_.qk_head_dim()).narrow(2, init_.qk_nope_head_dim, init_.qk_rope_head_dim);
    auto attend = [&](const SequenceGroup& group, int64_t first, int64_t tokens, const OptView& starts) {
      if (tokens == 0) return;
      auto part = [&](const View& of) { return of.narrow(0, first, tokens); };
      View logits = ctx.arena.make({{tokens, group.block_table.size(1), index_cache.size(1)}, DType::kF32});
      paged_mqa_logits(ctx, index_logits(), part(index_heads), index_cache, part(weights), group.seq_lens,
                       group.block_table, starts, logits);
      top_k_per_row(ctx, {.top_k = init_.index_topk}, logits, part(positions), part(chosen));
      // Of all tokens, and not earlier: its matrices are loaded while few blocks choose the keys.
      if (first == 0) per_head_packs(ctx, absorb_queries(core_), kv_b_, keys_of(queries), latent_queries);
      flash_mla_sparse(ctx, attention(), part(latent_queries), part(rotated), cache, part(chosen), group.block_table,
                       starts, part(means));
    };
    const int64_t decoding = batch.decode.num_tokens;
    attend(batch.decode, 0, decoding, OptView());
    attend(batch.prefill, decoding, batch.prefill.num_tokens, batch.prefill.cu_seqlens_q);
    per_head_packs(ctx, project_values(core_), kv_b_, means, values.split_last(H, init_.v_head_dim));
    o_proj_.run(ctx, values, o_, o_bias_ ? o_bias_->data() : nullptr, out);
  }

 private:
  static constexpr int64_t kMostTokens = 8;
  static constexpr double kIndexEps = 1e-6;  // as of the composition

  int64_t queries_size() const { return init_.num_heads * init_.qk_head_dim(); }
  int64_t values_size() const { return init_.num_heads * init_.v_head_dim; }
  int64_t entry_size() const { return init_.kv_lora_rank + init_.qk_rope_head_dim; }
  int64_t index_size() const { return init_.index_n_heads * init_.index_head_dim; }
  bool rotates() const {
    return init_.rotary && init_.qk_rope_head_dim % 2 == 0 && init_.qk_rope_head_dim / 2 <= kMostLatentPairs;
  }
  View keys_of(const View& queries) const {
    return queries.split_last(init_.num_heads, init_.qk_head_dim()).narrow(2, 0, init_.qk_nope_head_dim);
  }

  std::string_view refuse_init() const {
    if (init_.tp_size > 1) return "it does not add up ranks";
    if (!init_.weight_format.empty()) return "it reads weights of the dtype it computes in";
    if (init_.q_lora_rank == 0) return "queries must have latents";
    if (!rotates()) return "it rotates up to 128 pairs of a head";
    if (init_.dtype != DType::kBF16 && init_.dtype != DType::kF16) return "it computes in bf16 and f16";
    return flash_mla_sparse_refusal(attention(), init_.dtype);
  }

  PagedMQALogits::Init index_logits() const {
    return {.num_heads = init_.index_n_heads,
            .head_dim = init_.index_head_dim,
            .scale = 1 / std::sqrt(static_cast<double>(index_size()))};
  }
  FlashMLASparseFwd::Init attention() const {
    return {.num_heads = core_.num_heads,
            .kv_lora_rank = core_.kv_lora_rank,
            .qk_rope_head_dim = core_.qk_rope_head_dim,
            .top_k = core_.top_k,
            .softmax_scale = core_.scale};
  }

  StreamGroup projecting(const View& x, const View& down, const View& entries, const View& index_keys,
                         const View& weights) const {
    StreamGroup group;
    group.products.add({.weight = q_a_, .out = down, .bias = q_a_bias_, .x = x});
    group.products.add({.weight = kv_a_, .out = entries, .bias = kv_a_bias_, .x = x});
    group.products.add({.weight = index_k_, .out = index_keys, .x = x});
    group.products.add({.weight = index_weights_, .out = weights, .x = x});
    return group;
  }

  StreamGroup raising(const View& down, const View& queries, const View& index_queries) const {
    StreamGroup group;
    group.prologue = RmsNormRows{.x = down, .weight = q_a_norm_, .eps = init_.rms_norm_eps};
    group.products.add({.weight = q_b_, .out = queries});
    group.products.add({.weight = index_q_, .out = index_queries});
    return group;
  }

  const MLASparseAttention::Init core_;
  PairFrequencies frequencies_{}, index_frequencies_{};
  Matmul o_proj_;
  bool bound_ = false;
  View q_a_, q_a_norm_, q_b_, kv_a_, kv_a_norm_, kv_b_, o_, index_q_, index_k_, index_norm_, index_norm_bias_,
      index_weights_;
  OptView q_a_bias_, kv_a_bias_, o_bias_;
};

FK_FUSED_IMPLEMENTATION(DeepseekV32MLAAttention, StreamedSparseMLA, "cuda.stream_groups", DeviceKind::kCuda, 100,
                        nullptr);

}  // namespace
}  // namespace fk::cuda
