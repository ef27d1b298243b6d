#include "ops/l1/paged_mqa_logits.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/algebra/pieces.h"
#include "ops/l1/attention_oracle.h"
#include "ops/l1/oracle_rows.h"
#include "ops/refusals.h"
#include "ops/register.h"

namespace fk {

OutputSpecs PagedMQALogits::outputs(const Init&, Args given) {
  DType dtype = given[0]->dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  return {TensorSpec{{given[0]->size(0), given[4]->size(1), given[1]->size(1)}, dtype}};
}

Inputs PagedMQALogits::inputs(const Init& init, const Workload& w) {
  using Kind = Generator::Kind;
  int64_t S = w.num_sequences(), T = w.num_tokens();
  DType wide = w.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  InputSpec cu_q{{{S + 1}, DType::kI32}, Generator::metadata(Kind::kCuSeqlensQ)};
  return {InputSpec{{{T, init.num_heads, init.head_dim}, w.dtype}, Generator::normal()},
          InputSpec{{{cache_blocks(w), w.page_size, init.head_dim}, w.dtype}, Generator::normal()},
          InputSpec{{{T, init.num_heads}, wide}, Generator::normal()},
          InputSpec{{{S}, DType::kI32}, Generator::metadata(Kind::kSeqLens)},
          InputSpec{{{S, blocks_per_sequence(w)}, DType::kI32}, Generator::metadata(Kind::kBlockTable)},
          w.optional_inputs ? std::optional(cu_q) : std::nullopt};
}

Cost PagedMQALogits::cost(const Init& init, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), H = static_cast<double>(init.num_heads),
       D = static_cast<double>(init.head_dim), size = static_cast<double>(dtype_size(w.dtype));
  double keys = 0, pairs = 0;
  for (const Sequence& s : w.sequences) {
    keys += static_cast<double>(s.context_len + s.query_len);
    pairs += attended_pairs(s.query_len, s.context_len, {});
  }
  auto row = static_cast<double>(blocks_per_sequence(w) * w.page_size);
  return {.read_bytes = size * (keys * D + T * H * D) + 4 * T * H,
          .written_bytes = 4 * T * row,
          .matrix_flops = 2 * pairs * H * D,
          .vector_flops = 2 * pairs * H};
}

Tolerance PagedMQALogits::tolerance(const Init& init, DType) {
  // The result is f32 whatever the inputs are: sums of products that are exact in f32 for 16-bit inputs.
  return rounding_tolerance(DType::kF32, static_cast<double>(init.head_dim * init.num_heads) * 4);
}

Tolerance PagedMQALogits::tolerance_on(const Init& init, DType dtype, Args given) {
  // Terms of either sign can cancel: errors are shares of the largest possible sum, not of the largest found.
  Tolerance usual = tolerance(init, dtype);
  double most = init.scale * largest_norm(*given[0], init.head_dim) * largest_norm(*given[1], init.head_dim);
  double weights = 0;
  for (int64_t t = 0; t < given[2]->size(0); ++t) {
    double sum = 0;
    for (int64_t h = 0; h < init.num_heads; ++h) sum += std::abs(get(*given[2], t, h));
    weights = std::max(weights, sum);
  }
  // A share of the outputs' scale: around sqrt(H D) times the scale for standard normal inputs.
  double plain = init.scale * std::sqrt(static_cast<double>(init.head_dim * init.num_heads));
  if (plain > 0 && most * weights > plain) usual.of_scale += 4 * 0x1p-23 * std::min(1e3, most * weights / plain / 8);
  return usual;
}

std::vector<Case<PagedMQALogits>> PagedMQALogits::cases() {
  Init small{.num_heads = 16, .head_dim = 16, .scale = 0.0625}, odd{.num_heads = 5, .head_dim = 27, .scale = 0.1};
  Init published{.num_heads = 64, .head_dim = 128, .scale = 0.011};
  return {
      {"one key", {.num_heads = 1, .head_dim = 2}, Workload::batch({{1, 0}})},
      {"ragged", small, Workload::batch({{1, 0}, {1, 15}, {1, 16}, {1, 77}})},
      {"odd", odd, Workload::batch({{1, 33}, {1, 64}})},
      {"long context", small, Workload::batch({{1, 2500}, {1, 12}})},
      {"as published", published, Workload::batch({{1, 300}, {1, 63}})},
      {"several queries", odd, Workload::batch({{1, 5}, {7, 0}, {19, 40}}, true)},
      {"several queries, as published", published, Workload::batch({{33, 60}, {3, 0}}, true)},
      {"pages of 64", small, Workload::batch({{5, 130}, {1, 5}}, true).with_pages_of(64)},
      {"no tokens", small, Workload::batch({{0, 0}}, true)},
  };
}

std::string_view PagedMQALogits::refuse_call(Args args) const {
  for (size_t i : {3u, 4u, 5u})
    if (args[i] && (args[i]->dtype() != DType::kI32 || !args[i]->rows_contiguous()))
      return "its tables must be i32 with contiguous rows";
  if (!std::has_single_bit(static_cast<uint64_t>(args[1]->size(1)))) return "pages must hold a power of two of tokens";
  if (args[2]->dtype() != DType::kF32 || args[6]->dtype() != DType::kF32) return "weights and logits must be f32";
  const View& logits = *args[6];
  if (logits.size(1) > 1 && logits.stride(1) != logits.size(2)) return "a row of logits must be contiguous";
  if (!args[2]->rows_contiguous() || !logits.rows_contiguous()) return "rows of weights and logits must be contiguous";
  return refuse_rows({&args[0], &args[1]});
}

namespace {

class PagedMQALogitsOracle final : public PagedMQALogits {
 public:
  using PagedMQALogits::PagedMQALogits;

  void forward(Context& ctx, View q, View k_cache, View weights, View seq_lens, View block_table, OptView cu_seqlens_q,
               View logits) override {
    int64_t page = k_cache.size(1), pages = block_table.size(1);
    auto number = [](const View& table, auto... at) { return static_cast<int64_t>(get(table, at...)); };
    ctx.pool.parallel_for(seq_lens.size(0), 1, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        int64_t first = cu_seqlens_q ? number(*cu_seqlens_q, s) : s;
        int64_t queries = cu_seqlens_q ? number(*cu_seqlens_q, s + 1) - first : 1;
        std::vector<double> keys;
        for (int64_t j = 0; j < number(seq_lens, s); ++j)
          append_row(k_cache.select(0, number(block_table, s, j / page)).select(0, j % page), keys);
        for (int64_t i = 0; i < queries; ++i) {
          int64_t t = first + i, seen = number(seq_lens, s) - queries + i + 1;
          std::vector<double> heads;
          for (int64_t h = 0; h < init_.num_heads; ++h) append_row(q.select(0, t).select(0, h), heads);
          for (int64_t j = 0; j < pages * page; ++j) {
            double sum = j < seen ? 0 : -std::numeric_limits<double>::infinity();
            for (int64_t h = 0; j < seen && h < init_.num_heads; ++h) {
              const double *query = heads.data() + h * init_.head_dim, *key = keys.data() + j * init_.head_dim;
              double dot = 0;
              for (int64_t d = 0; d < init_.head_dim; ++d) dot += query[d] * key[d];
              // A NaN is not negative, so it stays.
              sum += get(weights, t, h) * (dot < 0 ? 0 : dot);
            }
            set(logits, j < seen ? sum * init_.scale : sum, t, j / page, j % page);
          }
        }
      }
    });
  }
};

FK_OPERATOR(PagedMQALogits, PagedMQALogitsOracle);

void define_paged_mqa_logits(const PagedMQALogits::Init& init, Definition& d) {
  Expr q = d.arg("q"), cache = d.arg("k_cache");
  const int64_t T = q.size(0);
  algebra::PagedQueries queries = algebra::paged_queries(d, T);
  Expr keys = gather(algebra::paged_rows(cache, d.arg("block_table")), queries.sequence);  // [T, J, D]
  const int64_t J = keys.size(1);
  Expr dots = sum(insert_axis(q, 1) * insert_axis(keys, 2), 3);  // [T, J, H, 1]
  Expr weights = reshape(d.arg("weights"), {T, 1, init.num_heads, 1});
  Expr logits = reshape(sum(weights * max(dots, 0), 2), {T, J}) * init.scale;
  Expr seen = algebra::iota({1, J}, 1) < insert_axis(queries.seen, 1);
  d.result("logits", reshape(select(seen, logits, -INFINITY), {T, J / cache.size(1), cache.size(1)}));
}
FK_DEFINITION(PagedMQALogits, define_paged_mqa_logits);

}  // namespace
}  // namespace fk
