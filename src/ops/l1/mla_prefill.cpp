#include "ops/l1/mla_prefill.h"

#include <cmath>

#include "ops/algebra/pieces.h"
#include "ops/l1/attention_oracle.h"
#include "ops/l1/mla_oracle.h"
#include "ops/l1/oracle_rows.h"
#include "ops/refusals.h"
#include "ops/register.h"

namespace fk {

OutputSpecs MLAPrefill::outputs(const Init& init, Args given) {
  const View& q = *given[0];
  DType lse = q.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  return {TensorSpec{{q.size(0), init.num_heads, init.v_head_dim}, q.dtype()},
          TensorSpec{{init.num_heads, q.size(0)}, lse}};
}

Inputs MLAPrefill::inputs(const Init& init, const Workload& w) {
  int64_t T = w.num_tokens(), H = init.num_heads, nope = init.qk_nope_head_dim, rope = init.qk_rope_head_dim;
  auto tensor = [&](const Shape& shape) { return InputSpec{{shape, w.dtype}, Generator::normal()}; };
  return {tensor({T, H, nope + rope}), tensor({T, H, nope + init.v_head_dim}), tensor({T, rope}),
          InputSpec{{{w.num_sequences() + 1}, DType::kI32}, Generator::metadata(Generator::Kind::kCuSeqlensQ)}};
}

Cost MLAPrefill::cost(const Init& init, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), H = static_cast<double>(init.num_heads),
       keys = static_cast<double>(init.qk_nope_head_dim + init.qk_rope_head_dim),
       values = static_cast<double>(init.v_head_dim), rope = static_cast<double>(init.qk_rope_head_dim),
       size = static_cast<double>(dtype_size(w.dtype));
  double pairs = 0;
  for (const Sequence& s : w.sequences) pairs += attended_pairs(s.query_len, 0, {});
  return {.read_bytes = size * T * (H * (2 * keys - rope + values) + rope),
          .written_bytes = T * H * (size * values + 4),
          .matrix_flops = 2 * pairs * H * (keys + values),
          .vector_flops = 4 * pairs * H};
}

Tolerance MLAPrefill::tolerance(const Init& init, DType dtype) {
  auto keys = static_cast<double>(init.qk_nope_head_dim + init.qk_rope_head_dim);
  Tolerance t = rounding_tolerance(dtype, keys * 4);
  return {t.relative, t.of_scale + dtype_epsilon(dtype) / 2};  // as in flash_attn_prefill
}

Tolerance MLAPrefill::tolerance_on(const Init& init, DType dtype, Args given) {
  // Of keys with their values, which lie in one row: not smaller than those of keys.
  double key = std::hypot(largest_norm(*given[1], given[1]->size(-1)), largest_norm(*given[2], given[2]->size(-1)));
  int64_t width = init.qk_nope_head_dim + init.qk_rope_head_dim;
  double largest = std::abs(init.softmax_scale) * largest_norm(*given[0], width) * key;
  return tolerance_on_scores(tolerance(init, dtype), largest, width);
}

std::vector<Case<MLAPrefill>> MLAPrefill::cases() {
  Init small{.num_heads = 4, .qk_nope_head_dim = 16, .qk_rope_head_dim = 8, .v_head_dim = 16, .softmax_scale = 0.2};
  Init odd{.num_heads = 3, .qk_nope_head_dim = 20, .qk_rope_head_dim = 6, .v_head_dim = 27, .softmax_scale = 0.19};
  Init wide{.num_heads = 2, .qk_nope_head_dim = 24, .qk_rope_head_dim = 8, .v_head_dim = 80, .softmax_scale = 0.17};
  Init published{
      .num_heads = 2, .qk_nope_head_dim = 128, .qk_rope_head_dim = 64, .v_head_dim = 128, .softmax_scale = 0.072};
  return {
      {"one token",
       {.num_heads = 1, .qk_nope_head_dim = 2, .qk_rope_head_dim = 2, .v_head_dim = 2},
       Workload::tokens(1)},
      {"ragged", small, Workload::batch({{1, 0}, {7, 0}, {33, 0}})},
      {"odd", odd, Workload::batch({{5, 19}, {33, 0}, {2, 40}, {17, 16}})},
      {"larger values than keys", wide, Workload::batch({{70, 0}, {3, 0}})},
      {"as published", published, Workload::batch({{140, 0}, {5, 0}, {64, 0}})},
      {"several tiles", small, Workload::batch({{300, 0}})},
      {"no tokens", small, Workload::tokens(0)},
  };
}

std::string_view MLAPrefill::refuse_call(Args args) const {
  if (args[3]->dtype() != DType::kI32 || !args[3]->rows_contiguous()) return "cu_seqlens must be i32 and contiguous";
  if (args[5]->dtype() != DType::kF32 || !args[5]->rows_contiguous()) return "lse must be f32 with contiguous rows";
  return refuse_rows({&args[0], &args[1], &args[2], &args[4]});
}

namespace {

class MLAPrefillOracle final : public MLAPrefill {
 public:
  using MLAPrefill::MLAPrefill;

  void forward(Context& ctx, View q, View kv, View k_pe, View cu_seqlens, View out, View lse) override {
    int64_t nope = init_.qk_nope_head_dim, sequences = cu_seqlens.size(0) - 1;
    ctx.pool.parallel_for(sequences * init_.num_heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        int64_t s = item / init_.num_heads, h = item % init_.num_heads;
        auto first = static_cast<int64_t>(get(cu_seqlens, s)), last = static_cast<int64_t>(get(cu_seqlens, s + 1));
        std::vector<double> keys, values;
        for (int64_t t = first; t < last; ++t) {
          View row = kv.select(0, t).select(0, h);
          append_row(row.narrow(0, 0, nope), keys);
          append_row(k_pe.select(0, t), keys);
          append_row(row.narrow(0, nope, init_.v_head_dim), values);
        }
        const Rows key_rows{keys.data(), nope + k_pe.size(1)}, value_rows{values.data(), init_.v_head_dim};
        for (int64_t t = first; t < last; ++t) {
          std::vector<double> query;
          append_row(q.select(0, t).select(0, h), query);
          Attended result =
              attend_with_lse(query, t - first + 1, init_.v_head_dim, init_.softmax_scale, key_rows, value_rows);
          for (int64_t i = 0; i < init_.v_head_dim; ++i) set(out, result.mean[static_cast<size_t>(i)], t, h, i);
          set(lse, result.lse, h, t);
        }
      }
    });
  }
};

FK_OPERATOR(MLAPrefill, MLAPrefillOracle);

void define_mla_prefill(const MLAPrefill::Init& init, Definition& d) {
  Expr q = d.arg("q"), kv = d.arg("kv"), k_pe = d.arg("k_pe");
  const int64_t T = q.size(0), nope = init.qk_nope_head_dim, rope = init.qk_rope_head_dim;
  auto of_queries = [](const Expr& x) { return insert_axis(x, 2); };                // [T, H, 1, D]
  auto of_keys = [](const Expr& x) { return insert_axis(transpose(x, 0, 1), 0); };  // [1, H, T, D]
  Expr scores = sum(of_queries(slice(q, 2, 0, nope)) * of_keys(slice(kv, 2, 0, nope)), 3) +
                sum(of_queries(slice(q, 2, nope, rope)) * of_keys(insert_axis(k_pe, 1)), 3);
  Expr sequence = algebra::segment_of(d.arg("cu_seqlens"), T);
  Expr query = algebra::iota({T, 1, 1, 1}, 0), key = algebra::iota({1, 1, T, 1}, 2);
  Expr visible = equal(reshape(sequence, {T, 1, 1, 1}), reshape(sequence, {1, 1, T, 1})) & !(query < key);
  algebra::AttendedLatents result =
      algebra::attend_latents(scores * init.softmax_scale, of_keys(slice(kv, 2, nope, init.v_head_dim)), visible);
  d.result("out", result.mean);
  d.result("lse", result.lse);
}
FK_DEFINITION(MLAPrefill, define_mla_prefill);

}  // namespace
}  // namespace fk
