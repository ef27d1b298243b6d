// ttt_linear against flash-linear-attention's reference (tools/golden/ttt.py), in one call and in pieces that end in
// the middle of mini-batches.
#include "ops/l1/ttt_linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/json.h"
#include "ops/op.h"

namespace fk {
namespace {

Tensor tensor_of(const Json& numbers, const Shape& shape, DType dtype) {
  Tensor tensor(shape, dtype);
  View flat = tensor.view().reshape({shape.numel()});
  for (int64_t i = 0; i < shape.numel(); ++i) set(flat, numbers[static_cast<size_t>(i)].get<double>(), i);
  return tensor;
}

double largest_difference(const Json& expected, const View& got) {
  View flat = got.reshape({got.numel()});
  double worst = 0;
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const double off = std::abs(expected[static_cast<size_t>(i)].get<double>() - get(flat, i));
    worst = off <= worst ? worst : off;  // a NaN is the worst
  }
  return worst;
}

class TTTLinearReference : public testing::TestWithParam<bool> {};  // whether the oracle runs, in f64

TEST_P(TTTLinearReference, GivesWhatFlashLinearAttentionGives) {
  const DType dtype = GetParam() ? DType::kF64 : DType::kF32;
  const double allowed = GetParam() ? 1e-8 : 2e-5;
  const Json data = parse_json_file(FK_SOURCE_DIR "/tests/ops/data/ttt_linear.json");
  ThreadPool pool(2);
  Arena arena;
  Context ctx{.pool = pool, .arena = arena};
  for (const Json& c : data.at("cases")) {
    const int64_t T = c.at("tokens"), H = c.at("heads"), D = c.at("size"), M = c.at("mini_batch");
    Op<TTTLinear> op = Builder{BuildOptions{.oracle = GetParam()}}.child<TTTLinear>(
        "ttt",
        {.num_heads = H, .head_dim = D, .mini_batch_size = M, .scale = c.at("scale"), .eps = 1e-6, .dtype = dtype});
    const Tensor w = tensor_of(c.at("w"), {H, D}, dtype), b = tensor_of(c.at("b"), {H, D}, dtype),
                 W1 = tensor_of(c.at("W1"), {H, D, D}, dtype), b1 = tensor_of(c.at("b1"), {H, 1, D}, dtype);
    op.node().bind([&](const std::string& name) {
      return name == "ttt.ttt_norm_weight" ? w.view()
             : name == "ttt.ttt_norm_bias" ? b.view()
             : name == "ttt.W1"            ? W1.view()
                                           : b1.view();
    });
    const Tensor q = tensor_of(c.at("q"), {T, H, D}, dtype), k = tensor_of(c.at("k"), {T, H, D}, dtype),
                 v = tensor_of(c.at("v"), {T, H, D}, dtype), eta = tensor_of(c.at("eta"), {T, H}, dtype);
    Tensor positions({T}, DType::kI64), slots({1}, DType::kI32);
    for (int64_t t = 0; t < T; ++t) positions.ptr<int64_t>()[t] = t;
    slots.ptr<int32_t>()[0] = 0;
    for (int64_t piece : {T, int64_t{1}, int64_t{3}, int64_t{5}}) {
      Tensor state({1, H, 2 * (D + 1), D}, dtype), out({T, H, D}, dtype), starts({2}, DType::kI32);
      std::fill_n(static_cast<char*>(state.view().data()), state.view().size_bytes(), char{0});
      for (int64_t t = 0; t < T; t += piece) {
        const int64_t n = std::min(piece, T - t);
        auto part = [&](const Tensor& x) { return x.view().narrow(0, t, n); };
        starts.ptr<int32_t>()[0] = 0;
        starts.ptr<int32_t>()[1] = static_cast<int32_t>(n);
        op.into(ctx, part(q), part(k), part(v), part(eta), part(positions), state.view(), slots.view(),
                piece == 1 ? OptView() : OptView(starts.view()), part(out));
      }
      EXPECT_LE(largest_difference(c.at("out"), out), allowed) << T << " tokens in pieces of " << piece;
      if (!c.contains("W_after")) continue;
      for (int64_t h = 0; h < H; ++h)
        for (int64_t i = 0; i <= D; ++i)
          for (int64_t j = 0; j < D; ++j) {
            const bool bias = i == D;
            const auto at = static_cast<size_t>(bias ? h * D + j : (h * D + i) * D + j);
            const double after = c.at(bias ? "b_after" : "W_after")[at], before = c.at(bias ? "b1" : "W1")[at];
            EXPECT_NEAR(get(state.view(), 0, h, i, j), after - before, allowed) << h << " " << i << " " << j;
          }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, TTTLinearReference, testing::Bool(),
                         [](const auto& p) { return p.param ? "oracle" : "kernels"; });

}  // namespace
}  // namespace fk
