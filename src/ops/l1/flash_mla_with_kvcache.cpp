#include "ops/l1/flash_mla_with_kvcache.h"

#include <bit>
#include <cmath>

#include "ops/algebra/pieces.h"
#include "ops/l1/attention_oracle.h"
#include "ops/l1/mla_oracle.h"
#include "ops/l1/oracle_rows.h"
#include "ops/refusals.h"
#include "ops/register.h"

namespace fk {

OutputSpecs FlashMLAWithKVCache::outputs(const Init& init, Args given) {
  const View& q = *given[0];
  DType lse = q.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  return {q.spec(), TensorSpec{{init.num_heads, q.size(0)}, lse}};
}

Inputs FlashMLAWithKVCache::inputs(const Init& init, const Workload& w) {
  using Kind = Generator::Kind;
  int64_t S = w.num_sequences(), T = w.num_tokens();
  auto queries = [&](int64_t size) { return InputSpec{{{T, init.num_heads, size}, w.dtype}, Generator::normal()}; };
  InputSpec cache{{{cache_blocks(w), w.page_size, init.kv_lora_rank + init.qk_rope_head_dim}, w.dtype},
                  Generator::normal()};
  InputSpec lens{{{S}, DType::kI32}, Generator::metadata(Kind::kSeqLens)};
  InputSpec table{{{S, blocks_per_sequence(w)}, DType::kI32}, Generator::metadata(Kind::kBlockTable)};
  InputSpec cu_q{{{S + 1}, DType::kI32}, Generator::metadata(Kind::kCuSeqlensQ)};
  return {queries(init.kv_lora_rank),
          queries(init.qk_rope_head_dim),
          cache,
          lens,
          table,
          w.optional_inputs ? std::optional(cu_q) : std::nullopt};
}

Cost FlashMLAWithKVCache::cost(const Init& init, const Workload& w) {
  auto size = static_cast<double>(dtype_size(w.dtype)), heads = static_cast<double>(init.num_heads),
       latent = static_cast<double>(init.kv_lora_rank), entry = latent + static_cast<double>(init.qk_rope_head_dim),
       tokens = static_cast<double>(w.num_tokens());
  double keys = 0, pairs = 0;
  for (const Sequence& s : w.sequences) {
    keys += static_cast<double>(s.context_len + (init.context_only ? 0 : s.query_len));
    pairs += init.context_only ? static_cast<double>(s.query_len * s.context_len)
                               : attended_pairs(s.query_len, s.context_len, {});
  }
  return {.read_bytes = size * (keys * entry + tokens * heads * entry),
          .written_bytes = tokens * heads * (size * latent + 4),
          .matrix_flops = 2 * pairs * heads * (entry + latent),
          .vector_flops = 4 * pairs * heads};
}

Tolerance FlashMLAWithKVCache::tolerance(const Init& init, DType dtype) {
  Tolerance t = rounding_tolerance(dtype, static_cast<double>(init.kv_lora_rank + init.qk_rope_head_dim) * 4);
  // As in flash_attn_prefill: weights may be rounded to dtype. The lse is f32 and its own scale.
  return {t.relative, t.of_scale + dtype_epsilon(dtype) / 2};
}

Tolerance tolerance_on_latents(Tolerance usual, const View& q_nope, const View& q_pe, const View& cache,
                               double softmax_scale) {
  double query = std::hypot(largest_norm(q_nope, q_nope.size(-1)), largest_norm(q_pe, q_pe.size(-1)));
  double largest = std::abs(softmax_scale) * query * largest_norm(cache, cache.size(-1));
  return tolerance_on_scores(usual, largest, cache.size(-1));
}

Tolerance FlashMLAWithKVCache::tolerance_on(const Init& init, DType dtype, Args given) {
  return tolerance_on_latents(tolerance(init, dtype), *given[0], *given[1], *given[2], init.softmax_scale);
}

std::vector<Case<FlashMLAWithKVCache>> FlashMLAWithKVCache::cases() {
  Init small{.num_heads = 4, .kv_lora_rank = 16, .qk_rope_head_dim = 8, .softmax_scale = 0.2};
  Init odd{.num_heads = 5, .kv_lora_rank = 27, .qk_rope_head_dim = 6, .softmax_scale = 0.17};
  Init context = odd, published{.num_heads = 16, .kv_lora_rank = 512, .qk_rope_head_dim = 64, .softmax_scale = 0.042};
  Init many{.num_heads = 70, .kv_lora_rank = 64, .qk_rope_head_dim = 32, .softmax_scale = 0.1};
  context.context_only = true;
  Init published_context = published;
  published_context.context_only = true;
  return {
      // Of one key the lse is the score, a sum that may cancel: several sequences give a head's row of it a scale.
      {"first key",
       {.num_heads = 1, .kv_lora_rank = 2, .qk_rope_head_dim = 2},
       Workload::batch(std::vector<Sequence>(16, {1, 0}))},
      {"ragged", small, Workload::batch({{1, 0}, {1, 15}, {1, 16}, {1, 77}})},
      {"odd", odd, Workload::batch({{1, 33}, {1, 64}})},
      {"long context", small, Workload::batch({{1, 1500}, {1, 12}})},
      {"more heads than a tile has rows", many, Workload::batch({{1, 130}, {1, 5}})},
      {"as published", published, Workload::batch({{1, 200}, {1, 63}})},
      {"pages of 64", published, Workload::batch({{1, 130}, {1, 5}}).with_pages_of(64)},
      {"several queries", odd, Workload::batch({{1, 5}, {7, 0}, {19, 40}}, true)},
      {"several queries, as published", published, Workload::batch({{5, 60}, {3, 0}}, true)},
      {"context alone, some without", context, Workload::batch({{5, 19}, {9, 0}, {2, 130}, {3, 16}}, true)},
      {"context alone, as published", published_context, Workload::batch({{3, 70}, {2, 0}}, true)},
      {"no tokens", small, Workload::batch({{0, 0}}, true)},
  };
}

std::string_view FlashMLAWithKVCache::refuse_call(Args args) const {
  for (size_t i : {3u, 4u, 5u})
    if (args[i] && (args[i]->dtype() != DType::kI32 || !args[i]->rows_contiguous()))
      return "its tables must be i32 with contiguous rows";
  if (!std::has_single_bit(static_cast<uint64_t>(args[2]->size(1)))) return "pages must hold a power of two of tokens";
  if (args[7]->dtype() != DType::kF32 || !args[7]->rows_contiguous()) return "lse must be f32 with contiguous rows";
  return refuse_rows({&args[0], &args[1], &args[2], &args[6]});
}

namespace {

class FlashMLAWithKVCacheOracle final : public FlashMLAWithKVCache {
 public:
  using FlashMLAWithKVCache::FlashMLAWithKVCache;

  void forward(Context& ctx, View q_nope, View q_pe, View cache, View seq_lens, View block_table, OptView cu_seqlens_q,
               View out, View lse) override {
    int64_t latent = init_.kv_lora_rank, page = cache.size(1);
    auto number = [](const View& table, auto... at) { return static_cast<int64_t>(get(table, at...)); };
    ctx.pool.parallel_for(seq_lens.size(0), 1, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        int64_t first = cu_seqlens_q ? number(*cu_seqlens_q, s) : s;
        int64_t queries = cu_seqlens_q ? number(*cu_seqlens_q, s + 1) - first : 1, keys = number(seq_lens, s);
        std::vector<double> entries;
        for (int64_t j = 0; j < keys; ++j)
          append_row(cache.select(0, number(block_table, s, j / page)).select(0, j % page), entries);
        const Rows rows{entries.data(), cache.size(2)};
        for (int64_t t = 0; t < queries; ++t)
          for (int64_t h = 0; h < init_.num_heads; ++h) {
            std::vector<double> query;
            append_row(q_nope.select(0, first + t).select(0, h), query);
            append_row(q_pe.select(0, first + t).select(0, h), query);
            int64_t seen = init_.context_only ? keys - queries : keys - queries + t + 1;
            Attended result = attend_with_lse(query, seen, latent, init_.softmax_scale, rows, rows);
            for (int64_t i = 0; i < latent; ++i) set(out, result.mean[static_cast<size_t>(i)], first + t, h, i);
            set(lse, result.lse, h, first + t);
          }
      }
    });
  }
};

FK_OPERATOR(FlashMLAWithKVCache, FlashMLAWithKVCacheOracle);

void define_flash_mla_with_kvcache(const FlashMLAWithKVCache::Init& init, Definition& d) {
  Expr q_nope = d.arg("q_nope");
  const int64_t T = q_nope.size(0);
  algebra::PagedQueries queries = algebra::paged_queries(d, T);
  Expr rows = algebra::paged_rows(d.arg("kv_c_and_k_pe_cache"), d.arg("block_table"));
  Expr entries = insert_axis(gather(rows, queries.sequence), 1);  // [T, 1, J, L + R]
  Expr latents = slice(entries, 3, 0, init.kv_lora_rank);
  Expr scores = algebra::latent_scores(q_nope, d.arg("q_pe"), entries) * init.softmax_scale;
  Expr seen = init.context_only ? queries.context : queries.seen;
  Expr visible = algebra::iota({1, 1, entries.size(2), 1}, 2) < reshape(seen, {T, 1, 1, 1});
  algebra::AttendedLatents result = algebra::attend_latents(scores, latents, visible);
  d.result("out", result.mean);
  d.result("lse", result.lse);
}
FK_DEFINITION(FlashMLAWithKVCache, define_flash_mla_with_kvcache);

}  // namespace
}  // namespace fk
