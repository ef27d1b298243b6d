#include "ops/l1/flash_attn_decode.h"

#include <cmath>

#include "ops/algebra/pieces.h"
#include "ops/l1/attention_oracle.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> FlashAttnDecode::params(const Init& init) {
  return sink_params(init.attention_sinks, init.num_heads);
}

OutputSpecs FlashAttnDecode::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs FlashAttnDecode::inputs(const Init& init, const Workload& w) {
  using Kind = Generator::Kind;
  int64_t S = w.num_sequences();
  InputSpec q{{{S, init.num_heads, init.head_size}, w.dtype}, Generator::normal()};
  InputSpec cache{{{cache_blocks(w), w.page_size, init.num_kv_heads, init.head_size}, w.dtype}, Generator::normal()};
  InputSpec lens{{{S}, DType::kI32}, Generator::metadata(Kind::kSeqLens)};
  InputSpec table{{{S, blocks_per_sequence(w)}, DType::kI32}, Generator::metadata(Kind::kBlockTable)};
  return {q, cache, cache, lens, table};
}

Cost FlashAttnDecode::cost(const Init& init, const Workload& w) {
  auto queries = static_cast<double>(w.num_sequences() * init.num_heads * init.head_size);
  double elements = queries, pairs = 0;
  for (const Sequence& s : w.sequences) {
    AttentionRule rule{.sliding_window = init.sliding_window, .chunk_size = init.attention_chunk_size};
    KeyRange seen = visible_keys(rule, s.context_len, s.context_len + 1);
    int64_t keys = seen.last - seen.first;
    elements += 2 * static_cast<double>(keys * init.num_kv_heads * init.head_size);
    pairs += static_cast<double>(keys);
  }
  double per_pair = static_cast<double>(init.num_heads * init.head_size);
  auto size = static_cast<double>(dtype_size(w.dtype));
  // The heads that share keys form a small matrix of queries, so tensor cores can be used.
  return {.read_bytes = elements * size,
          .written_bytes = queries * size,
          .matrix_flops = 4 * pairs * per_pair,
          .vector_flops = 5 * pairs * static_cast<double>(init.num_heads)};
}

Tolerance FlashAttnDecode::tolerance(const Init& init, DType dtype) {
  Tolerance t = rounding_tolerance(dtype, static_cast<double>(init.head_size) * 4);
  return {t.relative, t.of_scale + dtype_epsilon(dtype) / 2};  // as in prefill: weights may be rounded to dtype
}

Tolerance FlashAttnDecode::tolerance_on(const Init& init, DType dtype, Args given) {
  return tolerance_on_scores(tolerance(init, dtype), *given[0], *given[1], init.head_size, init.softmax_scale);
}

std::vector<Case<FlashAttnDecode>> FlashAttnDecode::cases() {
  auto scale = [](int64_t head_size) { return 1 / std::sqrt(static_cast<double>(head_size)); };
  return {
      {"first key", {.num_heads = 1, .num_kv_heads = 1, .head_size = 2}, Workload::batch({{1, 0}})},
      {"ragged",
       {.num_heads = 4, .num_kv_heads = 2, .head_size = 16, .softmax_scale = scale(16)},
       Workload::batch({{1, 0}, {1, 15}, {1, 16}, {1, 77}})},
      {"odd heads",
       {.num_heads = 6, .num_kv_heads = 3, .head_size = 24, .softmax_scale = scale(24)},
       Workload::batch({{1, 33}})},
      {"sliding window",
       {.num_heads = 2, .num_kv_heads = 1, .head_size = 32, .softmax_scale = scale(32), .sliding_window = 8},
       Workload::batch({{1, 3}, {1, 8}, {1, 50}})},
      {"soft cap",
       {.num_heads = 2, .num_kv_heads = 2, .head_size = 40, .softmax_scale = 0.5, .logits_soft_cap = 3},
       Workload::batch({{1, 21}})},
      {"long context",
       {.num_heads = 8, .num_kv_heads = 2, .head_size = 64, .softmax_scale = scale(64)},
       Workload::batch({{1, 700}, {1, 12}})},
      {"heads of 128",
       {.num_heads = 8, .num_kv_heads = 2, .head_size = 128, .softmax_scale = scale(128)},
       Workload::batch({{1, 200}, {1, 129}, {1, 63}})},
      {"three heads share, window, cap",
       {.num_heads = 6,
        .num_kv_heads = 2,
        .head_size = 128,
        .softmax_scale = scale(128),
        .sliding_window = 100,
        .logits_soft_cap = 20},
       Workload::batch({{1, 300}, {1, 5}})},
      {"many ragged sequences",
       {.num_heads = 16, .num_kv_heads = 16, .head_size = 64, .softmax_scale = scale(64)},
       Workload::batch({{1, 300}, {1, 0},  {1, 15}, {1, 16}, {1, 17},  {1, 31}, {1, 95}, {1, 260}, {1, 1},  {1, 48},
                        {1, 144}, {1, 63}, {1, 64}, {1, 7},  {1, 401}, {1, 33}, {1, 80}, {1, 2},   {1, 19}, {1, 128}})},
      {"many sequences share heads of 256",
       {.num_heads = 8, .num_kv_heads = 4, .head_size = 256, .softmax_scale = scale(256), .sliding_window = 70},
       Workload::batch({{1, 130},
                        {1, 3},
                        {1, 69},
                        {1, 70},
                        {1, 71},
                        {1, 15},
                        {1, 16},
                        {1, 99},
                        {1, 0},
                        {1, 40},
                        {1, 111},
                        {1, 90},
                        {1, 31},
                        {1, 32}})},
      {"heads of 512, eight share",
       {.num_heads = 16, .num_kv_heads = 2, .head_size = 512, .softmax_scale = scale(512)},
       Workload::batch({{1, 700}, {1, 0}, {1, 31}, {1, 16}})},
      {"heads of 512, window, cap",
       {.num_heads = 3,
        .num_kv_heads = 1,
        .head_size = 512,
        .softmax_scale = scale(512),
        .sliding_window = 100,
        .logits_soft_cap = 20},
       Workload::batch({{1, 300}, {1, 5}})},
      {"pages of 64",
       {.num_heads = 4, .num_kv_heads = 2, .head_size = 64, .softmax_scale = scale(64), .sliding_window = 90},
       Workload::batch({{1, 300}, {1, 63}, {1, 5}}).with_pages_of(64)},
      {"pages of 4",
       {.num_heads = 2, .num_kv_heads = 1, .head_size = 32, .softmax_scale = scale(32), .sliding_window = 21},
       Workload::batch({{1, 70}, {1, 3}}).with_pages_of(4)},
      {"sinks, window",
       {.num_heads = 6,
        .num_kv_heads = 2,
        .head_size = 24,
        .softmax_scale = scale(24),
        .sliding_window = 20,
        .attention_sinks = true},
       Workload::batch({{1, 300}, {1, 0}, {1, 19}})},
      {"sinks, many keys",
       {.num_heads = 2, .num_kv_heads = 1, .head_size = 64, .softmax_scale = scale(64), .attention_sinks = true},
       Workload::batch({{1, 600}, {1, 40}})},
      {"chunks",
       {.num_heads = 4, .num_kv_heads = 2, .head_size = 20, .softmax_scale = scale(20), .attention_chunk_size = 24},
       Workload::batch({{1, 0}, {1, 23}, {1, 24}, {1, 100}})},
      {"large heads",
       {.num_heads = 4, .num_kv_heads = 1, .head_size = 256, .softmax_scale = 1.0 / 16},
       Workload::batch({{1, 60}})},
  };
}

namespace {

class FlashAttnDecodeOracle final : public FlashAttnDecode {
 public:
  using FlashAttnDecode::FlashAttnDecode;

  void forward(Context& ctx, View q, View k_cache, View v_cache, View cache_seqlens, View block_table,
               View out) override {
    AttentionRule rule{init_.softmax_scale, init_.logits_soft_cap, init_.sliding_window, true,
                       init_.attention_chunk_size};
    OptView head_sinks = sinks();
    int64_t size = init_.head_size, group = init_.num_heads / init_.num_kv_heads, page = k_cache.size(1);
    ctx.pool.parallel_for(q.size(0) * init_.num_kv_heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        int64_t s = item / init_.num_kv_heads, kv_head = item % init_.num_kv_heads;
        auto keys = static_cast<int64_t>(get(cache_seqlens, s));
        auto rows = [&](const View& cache) {
          return rows_of_head(cache, keys, size, [&](int64_t j) {
            const int64_t at[] = {static_cast<int64_t>(get(block_table, s, j / page)), j % page, kv_head, 0};
            return cache.at(at);
          });
        };
        std::vector<double> k_rows = rows(k_cache), v_rows = rows(v_cache), query(static_cast<size_t>(size));
        for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
          for (int64_t i = 0; i < size; ++i) query[static_cast<size_t>(i)] = get(q, s, h, i);
          std::optional<double> sink = head_sinks ? std::optional(get(*head_sinks, h)) : std::nullopt;
          std::vector<double> result = attend(rule, visible_keys(rule, keys - 1, keys), query, k_rows, v_rows, sink);
          for (int64_t i = 0; i < size; ++i) set(out, result[static_cast<size_t>(i)], s, h, i);
        }
      }
    });
  }
};

FK_OPERATOR(FlashAttnDecode, FlashAttnDecodeOracle);

void define_flash_attn_decode(const FlashAttnDecode::Init& init, Definition& d) {
  Expr q = d.arg("q"), table = d.arg("block_table"), k_cache = d.arg("k_cache");
  const int64_t S = q.size(0), K = init.num_kv_heads, keys = table.size(1) * k_cache.size(1);
  auto rows = [&](const Expr& cache) {  // [S, K, 1, keys, D]
    return insert_axis(transpose(algebra::paged_rows(cache, table), 1, 2), 2);
  };
  Expr key = algebra::iota({1, 1, 1, keys, 1}, 3);
  Expr length = reshape(d.arg("cache_seqlens"), {S, 1, 1, 1, 1});
  Expr visible =
      (key < length) & in_reach({true, init.sliding_window, init.attention_chunk_size}, max(length - 1, 0), key);
  algebra::Attention rule{init.softmax_scale, init.logits_soft_cap};
  if (init.attention_sinks) rule.sinks = d.arg("sinks");
  Expr queries = reshape(q, {S, K, init.num_heads / K, 1, init.head_size});
  d.result("out", attend_all(rule, queries, rows(k_cache), rows(d.arg("v_cache")), visible));
}
FK_DEFINITION(FlashAttnDecode, define_flash_attn_decode);

}  // namespace
}  // namespace fk
