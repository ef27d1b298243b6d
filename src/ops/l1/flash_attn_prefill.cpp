#include "ops/l1/flash_attn_prefill.h"

#include <cmath>

#include "ops/algebra/pieces.h"
#include "ops/l1/attention_oracle.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> FlashAttnPrefill::params(const Init& init) {
  return sink_params(init.attention_sinks, init.num_heads);
}

OutputSpecs FlashAttnPrefill::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs FlashAttnPrefill::inputs(const Init& init, const Workload& w) {
  using Kind = Generator::Kind;
  int64_t S = w.num_sequences(), keys = 0;
  for (const Sequence& s : w.sequences) keys += s.query_len + s.context_len;
  bool paged = w.optional_inputs;
  Shape kv = paged ? Shape{cache_blocks(w), w.page_size, init.num_kv_heads, init.head_size}
                   : Shape{keys, init.num_kv_heads, init.head_size};
  InputSpec q{{{w.num_tokens(), init.num_heads, init.head_size}, w.dtype}, Generator::normal()};
  InputSpec cache{{kv, w.dtype}, Generator::normal()};
  InputSpec cu_q{{{S + 1}, DType::kI32}, Generator::metadata(Kind::kCuSeqlensQ)};
  InputSpec cu_k{{{S + 1}, DType::kI32}, Generator::metadata(Kind::kCuSeqlensK)};
  InputSpec table{{{S, blocks_per_sequence(w)}, DType::kI32}, Generator::metadata(Kind::kBlockTable)};
  return {q, cache, cache, cu_q, cu_k, paged ? std::optional(table) : std::nullopt};
}

Cost FlashAttnPrefill::cost(const Init& init, const Workload& w) {
  auto queries = static_cast<double>(w.num_tokens() * init.num_heads * init.head_size);
  double elements = queries, pairs = 0;
  for (const Sequence& s : w.sequences) {
    AttentionRule rule{
        .sliding_window = init.sliding_window, .causal = init.causal, .chunk_size = init.attention_chunk_size};
    int64_t keys = s.query_len + s.context_len;
    if (s.query_len > 0) keys -= visible_keys(rule, s.context_len, keys).first;
    elements += 2 * static_cast<double>(keys * init.num_kv_heads * init.head_size);
    pairs += attended_pairs(s.query_len, s.context_len, rule);
  }
  double per_pair = static_cast<double>(init.num_heads * init.head_size);
  auto size = static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = elements * size,
          .written_bytes = queries * size,
          .matrix_flops = 4 * pairs * per_pair,
          .vector_flops = 5 * pairs * static_cast<double>(init.num_heads)};
}

Tolerance FlashAttnPrefill::tolerance(const Init& init, DType dtype) {
  // Attention weights are rounded to dtype before the product with the values, which adds a few roundings of the
  // output's scale.
  Tolerance t = rounding_tolerance(dtype, static_cast<double>(init.head_size) * 4);
  return {t.relative, t.of_scale + dtype_epsilon(dtype) / 2};
}

Tolerance FlashAttnPrefill::tolerance_on(const Init& init, DType dtype, Args given) {
  return tolerance_on_scores(tolerance(init, dtype), *given[0], *given[1], init.head_size, init.softmax_scale);
}

std::vector<Case<FlashAttnPrefill>> FlashAttnPrefill::cases() {
  auto scale = [](int64_t head_size) { return 1 / std::sqrt(static_cast<double>(head_size)); };
  return {
      {"one token", {.num_heads = 1, .num_kv_heads = 1, .head_size = 2}, Workload::tokens(1)},
      {"dense, ragged",
       {.num_heads = 4, .num_kv_heads = 2, .head_size = 16, .softmax_scale = scale(16)},
       Workload::batch({{1, 0}, {7, 0}, {33, 0}})},
      {"paged, ragged, chunked",
       {.num_heads = 6, .num_kv_heads = 3, .head_size = 24, .softmax_scale = scale(24)},
       Workload::batch({{5, 19}, {33, 0}, {2, 40}, {17, 16}}, true)},
      {"heads of 512, eight share",
       {.num_heads = 8, .num_kv_heads = 1, .head_size = 512, .softmax_scale = scale(512)},
       Workload::batch({{70, 0}, {3, 40}, {129, 17}}, true)},
      {"heads of 328, window, cap",
       {.num_heads = 2,
        .num_kv_heads = 2,
        .head_size = 328,
        .softmax_scale = scale(328),
        .sliding_window = 37,
        .logits_soft_cap = 20},
       Workload::batch({{90, 5}, {2, 66}}, true)},
      {"one kv head",
       {.num_heads = 5, .num_kv_heads = 1, .head_size = 32, .softmax_scale = scale(32)},
       Workload::batch({{20, 3}}, true)},
      {"sliding window",
       {.num_heads = 2, .num_kv_heads = 1, .head_size = 32, .softmax_scale = scale(32), .sliding_window = 8},
       Workload::batch({{40, 0}, {9, 30}}, true)},
      {"window of one",
       {.num_heads = 2, .num_kv_heads = 2, .head_size = 8, .sliding_window = 1},
       Workload::batch({{19, 2}}, true)},
      {"soft cap",
       {.num_heads = 2, .num_kv_heads = 2, .head_size = 40, .softmax_scale = 0.5, .logits_soft_cap = 3},
       Workload::batch({{21, 5}}, true)},
      {"not causal",
       {.num_heads = 2, .num_kv_heads = 1, .head_size = 16, .softmax_scale = scale(16), .causal = false},
       Workload::batch({{12, 0}, {3, 20}})},
      {"several tiles",
       {.num_heads = 4, .num_kv_heads = 2, .head_size = 64, .softmax_scale = scale(64)},
       Workload::batch({{150, 20}}, true)},
      {"heads of 128",
       {.num_heads = 6, .num_kv_heads = 2, .head_size = 128, .softmax_scale = scale(128)},
       Workload::batch({{140, 30}, {5, 0}, {64, 64}}, true)},
      {"heads of 128, dense, window, cap",
       {.num_heads = 2,
        .num_kv_heads = 1,
        .head_size = 128,
        .softmax_scale = scale(128),
        .sliding_window = 70,
        .logits_soft_cap = 20},
       Workload::batch({{150, 0}, {33, 0}})},
      // More tiles of keys than any kernel has buffers for, in scattered blocks.
      {"heads of 64, long context",
       {.num_heads = 2, .num_kv_heads = 1, .head_size = 64, .softmax_scale = scale(64)},
       Workload::batch({{35, 610}, {3, 258}}, true)},
      {"heads of 64, window, cap",
       {.num_heads = 3,
        .num_kv_heads = 3,
        .head_size = 64,
        .softmax_scale = scale(64),
        .sliding_window = 150,
        .logits_soft_cap = 10},
       Workload::batch({{20, 390}, {70, 0}}, true)},
      {"heads of 128, long context, window",
       {.num_heads = 2, .num_kv_heads = 1, .head_size = 128, .softmax_scale = scale(128), .sliding_window = 333},
       Workload::batch({{34, 500}}, true)},
      // Only full tiles, and full ones before one that is not.
      {"heads of 64, whole tiles, not causal",
       {.num_heads = 4, .num_kv_heads = 2, .head_size = 64, .softmax_scale = scale(64), .causal = false},
       Workload::batch({{130, 126}, {256, 0}, {70, 130}, {3, 125}})},
      {"heads of 128, not causal",
       {.num_heads = 3, .num_kv_heads = 1, .head_size = 128, .softmax_scale = scale(128), .causal = false},
       Workload::batch({{22, 250}, {1, 0}})},
      // More tiles of queries than a GPU has multiprocessors.
      {"many short sequences",
       {.num_heads = 24, .num_kv_heads = 24, .head_size = 64, .softmax_scale = scale(64)},
       Workload::batch({{1, 0}, {3, 2}, {2, 9}, {5, 11}, {1, 3}, {4, 0}}, true)},
      // The same, with different numbers of tiles of keys.
      {"many heads, not causal",
       {.num_heads = 70, .num_kv_heads = 70, .head_size = 8, .softmax_scale = scale(8), .causal = false},
       Workload::batch({{3, 130}, {1, 0}, {2, 300}})},
      {"many heads of 72",
       {.num_heads = 50, .num_kv_heads = 50, .head_size = 72, .softmax_scale = scale(72)},
       Workload::batch({{3, 130}, {1, 0}, {2, 200}, {5, 60}}, true)},
      {"pages of 64",
       {.num_heads = 4, .num_kv_heads = 2, .head_size = 64, .softmax_scale = scale(64), .sliding_window = 90},
       Workload::batch({{35, 300}, {3, 63}}, true).with_pages_of(64)},
      {"pages of 4",
       {.num_heads = 2, .num_kv_heads = 1, .head_size = 32, .softmax_scale = scale(32)},
       Workload::batch({{19, 7}, {2, 40}}, true).with_pages_of(4)},
      {"sinks, window",
       {.num_heads = 6,
        .num_kv_heads = 2,
        .head_size = 24,
        .softmax_scale = scale(24),
        .sliding_window = 20,
        .attention_sinks = true},
       Workload::batch({{35, 50}, {70, 0}, {1, 3}}, true)},
      {"sinks",
       {.num_heads = 3, .num_kv_heads = 3, .head_size = 32, .softmax_scale = scale(32), .attention_sinks = true},
       Workload::batch({{9, 0}, {80, 0}})},
      {"chunks",
       {.num_heads = 4, .num_kv_heads = 2, .head_size = 20, .softmax_scale = scale(20), .attention_chunk_size = 24},
       Workload::batch({{60, 0}, {9, 30}, {24, 24}, {3, 200}}, true)},
      {"large heads",
       {.num_heads = 2, .num_kv_heads = 1, .head_size = 256, .softmax_scale = 1.0 / 16},
       Workload::batch({{35, 10}}, true)},
      {"no tokens", {.num_heads = 2, .num_kv_heads = 1, .head_size = 8}, Workload::tokens(0)},
  };
}

namespace {

class FlashAttnPrefillOracle final : public FlashAttnPrefill {
 public:
  using FlashAttnPrefill::FlashAttnPrefill;

  void forward(Context& ctx, View q, View k, View v, View cu_seqlens_q, View cu_seqlens_k, OptView block_table,
               View out) override {
    AttentionRule rule{init_.softmax_scale, init_.logits_soft_cap, init_.sliding_window, init_.causal,
                       init_.attention_chunk_size};
    OptView head_sinks = sinks();
    auto offset = [](const View& table, int64_t i) { return static_cast<int64_t>(get(table, i)); };
    int64_t size = init_.head_size, group = init_.num_heads / init_.num_kv_heads, sequences = cu_seqlens_q.size(0) - 1;
    int64_t page = block_table ? k.size(1) : 0;
    ctx.pool.parallel_for(sequences * init_.num_kv_heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        int64_t s = item / init_.num_kv_heads, kv_head = item % init_.num_kv_heads;
        int64_t first_q = offset(cu_seqlens_q, s), queries = offset(cu_seqlens_q, s + 1) - first_q;
        int64_t first_k = offset(cu_seqlens_k, s), keys = offset(cu_seqlens_k, s + 1) - first_k;
        auto rows = [&](const View& kv) {
          return rows_of_head(kv, keys, size, [&](int64_t j) {
            const int64_t dense[] = {first_k + j, kv_head, 0};
            if (!block_table) return kv.at(dense);
            const int64_t paged[] = {static_cast<int64_t>(get(*block_table, s, j / page)), j % page, kv_head, 0};
            return kv.at(paged);
          });
        };
        std::vector<double> k_rows = rows(k), v_rows = rows(v), query(static_cast<size_t>(size));
        for (int64_t t = 0; t < queries; ++t)
          for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
            for (int64_t i = 0; i < size; ++i) query[static_cast<size_t>(i)] = get(q, first_q + t, h, i);
            KeyRange seen = visible_keys(rule, keys - queries + t, keys);
            std::optional<double> sink = head_sinks ? std::optional(get(*head_sinks, h)) : std::nullopt;
            std::vector<double> result = attend(rule, seen, query, k_rows, v_rows, sink);
            for (int64_t i = 0; i < size; ++i) set(out, result[static_cast<size_t>(i)], first_q + t, h, i);
          }
      }
    });
  }
};

FK_OPERATOR(FlashAttnPrefill, FlashAttnPrefillOracle);

void define_flash_attn_prefill(const FlashAttnPrefill::Init& init, Definition& d) {
  Expr q = d.arg("q"), first_q = d.arg("cu_seqlens_q"), first_k = d.arg("cu_seqlens_k");
  const int64_t T = q.size(0), K = init.num_kv_heads;
  Expr sequence = segment_of(first_q, T);  // of each query
  auto of_sequence = [&](const Expr& bounds, int64_t next) {
    return reshape(gather(bounds, sequence + static_cast<double>(next)), {T, 1, 1, 1, 1});
  };
  Expr begin = of_sequence(first_k, 0), keys = of_sequence(first_k, 1) - begin;
  Expr from_last = of_sequence(first_q, 1) - algebra::iota({T, 1, 1, 1, 1}, 0);  // 1 for the last query of a sequence
  auto rows = [&](const Expr& kv) {                                              // [T or 1, K, 1, J, D]
    if (!d.has("block_table")) return insert_axis(insert_axis(transpose(kv, 0, 1), 1), 0);
    Expr pages = paged_rows(kv, d.arg("block_table"));  // [S, J, K, D]
    return gather(insert_axis(transpose(pages, 1, 2), 2), sequence);
  };
  Expr k = rows(d.arg("k"));
  Expr key = algebra::iota({1, 1, 1, k.size(3), 1}, 3);
  if (!d.has("block_table")) key = key - begin;  // its position in the sequence
  Expr position = max(keys - from_last, 0);
  Expr visible = (key < keys) & !(key < 0) &
                 in_reach({init.causal, init.sliding_window, init.attention_chunk_size}, position, key);
  algebra::Attention rule{init.softmax_scale, init.logits_soft_cap};
  if (init.attention_sinks) rule.sinks = d.arg("sinks");
  Expr queries = reshape(q, {T, K, init.num_heads / K, 1, init.head_size});
  d.result("out", attend_all(rule, queries, k, rows(d.arg("v")), visible));
}
FK_DEFINITION(FlashAttnPrefill, define_flash_attn_prefill);

}  // namespace
}  // namespace fk
