#include "ops/l1/fused_qkvz_split_reshape_cat.h"

#include "ops/algebra/pieces.h"
#include "ops/register.h"

namespace fk {

OutputSpecs FusedQKVZSplitReshapeCat::outputs(const Init& init, Args given) {
  const int64_t T = given[0]->size(0);
  return {TensorSpec{{T, 2 * init.keys() + init.values()}, given[0]->dtype()},
          TensorSpec{{T, init.values()}, given[0]->dtype()}};
}

Inputs FusedQKVZSplitReshapeCat::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), 2 * init.keys() + 2 * init.values()}, w.dtype}, Generator::normal()}};
}

Cost FusedQKVZSplitReshapeCat::cost(const Init& init, const Workload& w) {
  auto bytes = static_cast<double>(w.num_tokens() * 2 * (init.keys() + init.values())) *
               static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = bytes, .written_bytes = bytes};
}

Tolerance FusedQKVZSplitReshapeCat::tolerance(const Init&, DType) { return {0, 0}; }

std::vector<Case<FusedQKVZSplitReshapeCat>> FusedQKVZSplitReshapeCat::cases() {
  return {
      {"one element each", {.num_k_heads = 1, .num_v_heads = 1, .head_k_dim = 1, .head_v_dim = 1}, Workload::tokens(1)},
      {"odd", {.num_k_heads = 3, .num_v_heads = 6, .head_k_dim = 5, .head_v_dim = 7}, Workload::tokens(9)},
      {"wide", {.num_k_heads = 2, .num_v_heads = 4, .head_k_dim = 128, .head_v_dim = 128}, Workload::tokens(3)},
      {"no tokens", {.num_k_heads = 1, .num_v_heads = 2, .head_k_dim = 4, .head_v_dim = 4}, Workload::tokens(0)}};
}

namespace {

class FusedQKVZSplitReshapeCatOracle final : public FusedQKVZSplitReshapeCat {
 public:
  using FusedQKVZSplitReshapeCat::FusedQKVZSplitReshapeCat;

  void forward(Context&, View qkvz, View qkv, View z) override {
    const int64_t K = init_.head_k_dim, V = init_.num_v_heads / init_.num_k_heads * init_.head_v_dim;
    for (int64_t t = 0; t < qkvz.size(0); ++t)
      for (int64_t h = 0; h < init_.num_k_heads; ++h) {
        const int64_t first = h * 2 * (K + V);
        for (int64_t i = 0; i < K; ++i) {
          set(qkv, get(qkvz, t, first + i), t, h * K + i);
          set(qkv, get(qkvz, t, first + K + i), t, init_.keys() + h * K + i);
        }
        for (int64_t i = 0; i < V; ++i) {
          set(qkv, get(qkvz, t, first + 2 * K + i), t, 2 * init_.keys() + h * V + i);
          set(z, get(qkvz, t, first + 2 * K + V + i), t, h * V + i);
        }
      }
  }
};

FK_OPERATOR(FusedQKVZSplitReshapeCat, FusedQKVZSplitReshapeCatOracle);

void define_fused_qkvz_split_reshape_cat(const FusedQKVZSplitReshapeCat::Init& init, Definition& d) {
  const int64_t H = init.num_k_heads, K = init.head_k_dim, V = init.num_v_heads / H * init.head_v_dim;
  Expr qkvz = d.arg("qkvz");
  const int64_t T = qkvz.size(0);
  Expr heads = reshape(qkvz, {T, H, 2 * (K + V)});
  auto part = [&](int64_t first, int64_t count) { return reshape(slice(heads, 2, first, count), {T, H * count}); };
  d.result("qkv", algebra::beside(algebra::beside(part(0, K), part(K, K), 1), part(2 * K, V), 1));
  d.result("z", part(2 * K + V, V));
}
FK_DEFINITION(FusedQKVZSplitReshapeCat, define_fused_qkvz_split_reshape_cat);

}  // namespace
}  // namespace fk
