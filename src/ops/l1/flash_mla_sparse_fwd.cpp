#include "ops/l1/flash_mla_sparse_fwd.h"

#include <algorithm>
#include <bit>

#include "ops/algebra/pieces.h"
#include "ops/l1/flash_mla_with_kvcache.h"
#include "ops/l1/mla_oracle.h"
#include "ops/l1/oracle_rows.h"
#include "ops/refusals.h"
#include "ops/register.h"

namespace fk {

OutputSpecs FlashMLASparseFwd::outputs(const Init&, Args given) { return {given[0]->spec()}; }

namespace {
// Keys that every query of the batch sees.
int64_t common_keys(const Workload& w) {
  int64_t least = INT32_MAX;
  for (const Sequence& s : w.sequences)
    if (s.query_len > 0) least = std::min(least, s.context_len + 1);
  return least;
}
}  // namespace

Inputs FlashMLASparseFwd::inputs(const Init& init, const Workload& w) {
  using Kind = Generator::Kind;
  int64_t S = w.num_sequences(), T = w.num_tokens();
  auto queries = [&](int64_t size) { return InputSpec{{{T, init.num_heads, size}, w.dtype}, Generator::normal()}; };
  InputSpec cache{{{cache_blocks(w), w.page_size, init.kv_lora_rank + init.qk_rope_head_dim}, w.dtype},
                  Generator::normal()};
  InputSpec indices{{{T, init.top_k}, DType::kI32}, Generator::integers(-1, common_keys(w))};
  InputSpec table{{{S, blocks_per_sequence(w)}, DType::kI32}, Generator::metadata(Kind::kBlockTable)};
  InputSpec cu_q{{{S + 1}, DType::kI32}, Generator::metadata(Kind::kCuSeqlensQ)};
  return {queries(init.kv_lora_rank),
          queries(init.qk_rope_head_dim),
          cache,
          indices,
          table,
          w.optional_inputs ? std::optional(cu_q) : std::nullopt};
}

Cost FlashMLASparseFwd::cost(const Init& init, const Workload& w) {
  auto size = static_cast<double>(dtype_size(w.dtype)), heads = static_cast<double>(init.num_heads),
       latent = static_cast<double>(init.kv_lora_rank), entry = latent + static_cast<double>(init.qk_rope_head_dim),
       tokens = static_cast<double>(w.num_tokens()), k = static_cast<double>(init.top_k);
  double entries = 0, pairs = 0;
  for (const Sequence& s : w.sequences) {
    // Queries of a sequence may want the same keys, and see no more than there are. Lists of generated calls may have
    // keys twice, or none.
    auto keys = static_cast<double>(s.context_len + s.query_len), queries = static_cast<double>(s.query_len);
    entries += distinct_rows(std::min(keys, static_cast<double>(common_keys(w))), std::min(k, keys)) / 2;
    pairs += queries * std::min(k, keys) / 2;
  }
  return {.read_bytes = size * (entries * entry + tokens * heads * entry) + 4 * tokens * k,
          .written_bytes = tokens * heads * size * latent,
          .matrix_flops = 2 * pairs * heads * (entry + latent),
          .vector_flops = 4 * pairs * heads};
}

Tolerance FlashMLASparseFwd::tolerance(const Init& init, DType dtype) {
  return FlashMLAWithKVCache::tolerance(
      {.num_heads = init.num_heads, .kv_lora_rank = init.kv_lora_rank, .qk_rope_head_dim = init.qk_rope_head_dim},
      dtype);
}

Tolerance FlashMLASparseFwd::tolerance_on(const Init& init, DType dtype, Args given) {
  return tolerance_on_latents(tolerance(init, dtype), *given[0], *given[1], *given[2], init.softmax_scale);
}

std::vector<Case<FlashMLASparseFwd>> FlashMLASparseFwd::cases() {
  Init small{.num_heads = 4, .kv_lora_rank = 16, .qk_rope_head_dim = 8, .top_k = 4, .softmax_scale = 0.2};
  Init odd{.num_heads = 5, .kv_lora_rank = 27, .qk_rope_head_dim = 6, .top_k = 37, .softmax_scale = 0.17};
  Init published{.num_heads = 16, .kv_lora_rank = 512, .qk_rope_head_dim = 64, .top_k = 128, .softmax_scale = 0.042};
  Init many{.num_heads = 70, .kv_lora_rank = 64, .qk_rope_head_dim = 32, .top_k = 700, .softmax_scale = 0.1};
  return {
      {"one key", {.num_heads = 1, .kv_lora_rank = 2, .qk_rope_head_dim = 2, .top_k = 1}, Workload::batch({{1, 0}})},
      {"ragged", small, Workload::batch({{1, 3}, {1, 15}, {1, 16}, {1, 77}})},
      {"odd", odd, Workload::batch({{1, 33}, {1, 64}})},
      {"many keys", many, Workload::batch({{1, 900}})},
      {"as published", published, Workload::batch({{1, 200}, {1, 130}})},
      {"several queries", odd, Workload::batch({{1, 50}, {7, 41}, {19, 40}}, true)},
      {"several queries, as published", published, Workload::batch({{5, 60}, {3, 140}}, true)},
      {"pages of 64", published, Workload::batch({{1, 130}, {1, 150}}).with_pages_of(64)},
      {"no tokens", small, Workload::batch({{0, 0}}, true)},
  };
}

std::string_view FlashMLASparseFwd::refuse_call(Args args) const {
  for (size_t i : {3u, 4u, 5u})
    if (args[i] && (args[i]->dtype() != DType::kI32 || !args[i]->rows_contiguous()))
      return "its tables must be i32 with contiguous rows";
  if (!std::has_single_bit(static_cast<uint64_t>(args[2]->size(1)))) return "pages must hold a power of two of tokens";
  return refuse_rows({&args[0], &args[1], &args[2], &args[6]});
}

namespace {

class FlashMLASparseFwdOracle final : public FlashMLASparseFwd {
 public:
  using FlashMLASparseFwd::FlashMLASparseFwd;

  void forward(Context& ctx, View q_nope, View q_pe, View cache, View indices, View block_table, OptView cu_seqlens_q,
               View out) override {
    int64_t latent = init_.kv_lora_rank, page = cache.size(1);
    auto number = [](const View& table, auto... at) { return static_cast<int64_t>(get(table, at...)); };
    ctx.pool.parallel_for(q_nope.size(0), 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        int64_t s = t;
        if (cu_seqlens_q)
          for (s = 0; number(*cu_seqlens_q, s + 1) <= t;) ++s;
        std::vector<double> entries;  // of the keys that are there
        int64_t keys = 0;
        for (int64_t i = 0; i < init_.top_k; ++i) {
          const int64_t key = number(indices, t, i);
          if (key < 0) continue;
          ++keys;
          append_row(cache.select(0, number(block_table, s, key / page)).select(0, key % page), entries);
        }
        const Rows rows{entries.data(), cache.size(2)};
        for (int64_t h = 0; h < init_.num_heads; ++h) {
          std::vector<double> query;
          append_row(q_nope.select(0, t).select(0, h), query);
          append_row(q_pe.select(0, t).select(0, h), query);
          Attended result = attend_with_lse(query, keys, latent, init_.softmax_scale, rows, rows);
          for (int64_t i = 0; i < latent; ++i) set(out, result.mean[static_cast<size_t>(i)], t, h, i);
        }
      }
    });
  }
};

FK_OPERATOR(FlashMLASparseFwd, FlashMLASparseFwdOracle);

void define_flash_mla_sparse_fwd(const FlashMLASparseFwd::Init& init, Definition& d) {
  Expr q_nope = d.arg("q_nope"), indices = d.arg("indices"), table = d.arg("block_table");
  Expr cache = d.arg("kv_c_and_k_pe_cache");
  const int64_t T = q_nope.size(0), entry = cache.size(2), pages = table.size(1);
  const auto page = static_cast<double>(cache.size(1));
  Expr sequence = d.has("cu_seqlens_q") ? algebra::segment_of(d.arg("cu_seqlens_q"), T) : algebra::iota({T}, 0);
  Expr key = max(indices, 0);  // [T, k]
  Expr at = insert_axis(sequence, 1) * static_cast<double>(pages) + floor_divide(key, page);
  Expr slot = gather(reshape(table, {table.size(0) * pages}), at) * page + modulo(key, page);
  Expr rows = reshape(cache, {cache.size(0) * cache.size(1), entry});
  Expr entries = insert_axis(gather(rows, slot), 1);  // [T, 1, k, L + R]
  Expr scores = algebra::latent_scores(q_nope, d.arg("q_pe"), entries) * init.softmax_scale;
  Expr visible = reshape(!(indices < 0), {T, 1, init.top_k, 1});
  d.result("out", algebra::attend_latents(scores, slice(entries, 3, 0, init.kv_lora_rank), visible).mean);
}
FK_DEFINITION(FlashMLASparseFwd, define_flash_mla_sparse_fwd);

}  // namespace
}  // namespace fk
