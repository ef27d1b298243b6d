#include "ops/l1/attention_pool.h"

#include "ops/algebra/pieces.h"
#include "ops/l1/attention_oracle.h"
#include "ops/register.h"

namespace fk {

OutputSpecs AttentionPool::outputs(const Init& init, Args given) {
  return {TensorSpec{{given[3]->size(0) - 1, init.num_heads * init.head_size}, given[0]->dtype()}};
}

Inputs AttentionPool::inputs(const Init& init, const Workload& w) {
  auto rows = [&](int64_t n) {
    return InputSpec{{{n, init.num_heads * init.head_size}, w.dtype}, Generator::normal()};
  };
  return {rows(1), rows(w.num_tokens()), rows(w.num_tokens()),
          InputSpec{{{w.num_sequences() + 1}, DType::kI32}, Generator::metadata(Generator::Kind::kCuSeqlensQ)}};
}

Cost AttentionPool::cost(const Init& init, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), S = static_cast<double>(w.num_sequences()),
       D = static_cast<double>(init.num_heads * init.head_size);
  auto size = static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = size * (2 * T + 1) * D + 4 * (S + 1),
          .written_bytes = size * S * D,
          .vector_flops = 4 * T * D + 5 * T * static_cast<double>(init.num_heads)};
}

Tolerance AttentionPool::tolerance(const Init& init, DType dtype) {
  return rounding_tolerance(dtype, static_cast<double>(init.head_size) * 4);
}

Tolerance AttentionPool::tolerance_on(const Init& init, DType dtype, Args given) {
  return tolerance_on_scores(tolerance(init, dtype), *given[0], *given[1], init.head_size, init.scale);
}

std::vector<Case<AttentionPool>> AttentionPool::cases() {
  return {
      {"one token", {.num_heads = 1, .head_size = 1}, Workload::batch({{1, 0}})},
      {"ragged", {.num_heads = 4, .head_size = 16, .scale = 0.25}, Workload::batch({{1, 0}, {20, 0}, {3, 0}})},
      {"odd heads", {.num_heads = 3, .head_size = 14, .scale = 0.3}, Workload::batch({{49, 0}, {49, 0}})},
      {"many tokens", {.num_heads = 2, .head_size = 64, .scale = 0.125}, Workload::batch({{729, 0}, {300, 0}})},
      {"no tokens", {.num_heads = 2, .head_size = 8}, Workload::batch({{0, 0}})},
  };
}

std::string_view AttentionPool::refuse_call(Args args) const {
  if (args[3]->dtype() != DType::kI32 || !args[3]->rows_contiguous()) return "cu_seqlens must be i32 without gaps";
  return {};
}

namespace {

class AttentionPoolOracle final : public AttentionPool {
 public:
  using AttentionPool::AttentionPool;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context&, View query, View key, View value, View cu_seqlens, View out) override {
    int64_t size = init_.head_size;
    for (int64_t s = 0; s + 1 < cu_seqlens.size(0); ++s) {
      auto first = static_cast<int64_t>(get(cu_seqlens, s));
      int64_t tokens = static_cast<int64_t>(get(cu_seqlens, s + 1)) - first;
      for (int64_t h = 0; h < init_.num_heads; ++h) {
        auto rows = [&](const View& of, int64_t from, int64_t count) {
          return rows_of_head(of, count, size, [&](int64_t j) {
            const int64_t at[] = {from + j, h * size};
            return of.at(at);
          });
        };
        AttentionRule rule{.softmax_scale = init_.scale, .causal = false};
        std::vector<double> result =
            attend(rule, {0, tokens}, rows(query, 0, 1), rows(key, first, tokens), rows(value, first, tokens));
        for (int64_t i = 0; i < size; ++i) set(out, result[static_cast<size_t>(i)], s, h * size + i);
      }
    }
  }
};

FK_OPERATOR(AttentionPool, AttentionPoolOracle);

void define_attention_pool(const AttentionPool::Init& init, Definition& d) {
  Expr bounds = d.arg("cu_seqlens"), key = d.arg("key");
  const int64_t S = bounds.size(0) - 1, T = key.size(0), H = init.num_heads, size = init.head_size;
  auto rows = [&](const Expr& x) {  // [1, H, 1, T, D]
    return insert_axis(insert_axis(transpose(reshape(x, {T, H, size}), 0, 1), 1), 0);
  };
  Expr token = algebra::iota({1, 1, 1, T, 1}, 3);
  auto bound = [&](int64_t next) { return reshape(slice(bounds, 0, next, S), {S, 1, 1, 1, 1}); };
  Expr visible = (token < bound(1)) & !(token < bound(0));
  Expr query = broadcast(reshape(d.arg("query"), {1, H, 1, 1, size}), {S, H, 1, 1, size});
  Expr out = attend_all({.scale = init.scale}, query, rows(key), rows(d.arg("value")), visible);
  d.result("out", reshape(out, {S, H * size}));
}
FK_DEFINITION(AttentionPool, define_attention_pool);

}  // namespace
}  // namespace fk
