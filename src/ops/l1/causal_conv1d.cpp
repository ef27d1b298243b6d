#include "ops/l1/causal_conv1d.h"

#include <vector>

#include "ops/algebra/pieces.h"
#include "ops/l1/recurrence.h"
#include "ops/refusals.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> CausalConv1d::params(const Init& init) {
  std::vector<ParamSpec> all = {{"weight", {{init.dim, 1, init.width}, init.dtype}}};
  if (init.bias) all.push_back({"bias", {{init.dim}, init.dtype}});
  return all;
}

OutputSpecs CausalConv1d::outputs(const Init&, Args given) {
  return {TensorSpec{given[0]->shape(), given[0]->dtype()}};
}

Inputs CausalConv1d::inputs(const Init& init, const Workload& w) {
  using Kind = Generator::Kind;
  int64_t S = w.num_sequences();
  InputSpec x{{{w.num_tokens(), init.dim}, w.dtype}, Generator::normal()};
  InputSpec windows{{{fk::state_slots(w), init.width - 1, init.dim}, w.dtype}, Generator::normal()};
  InputSpec slots{{{S}, DType::kI32}, Generator::metadata(Kind::kStateSlots).or_special()};
  InputSpec offsets{{{S + 1}, DType::kI32}, Generator::metadata(Kind::kCuSeqlensQ)};
  return {x, windows, slots, needs_offsets(w) ? std::optional(offsets) : std::nullopt};
}

Cost CausalConv1d::cost(const Init& init, const Workload& w) {
  auto C = static_cast<double>(init.dim), W = static_cast<double>(init.width), T = static_cast<double>(w.num_tokens()),
       size = static_cast<double>(dtype_size(w.dtype));
  double windows = 0, written = 0;
  for (const Sequence& s : w.sequences) {
    if (s.query_len == 0) continue;
    windows += (W - 1) * C;
    written += (W - 1) * C;
  }
  return {.read_bytes = (T * C + windows + (W + (init.bias ? 1 : 0)) * C) * size,
          .written_bytes = (T * C + written) * size,
          .vector_flops = 2 * T * C * W};
}

Tolerance CausalConv1d::tolerance(const Init& init, DType dtype) {
  return rounding_tolerance(dtype, static_cast<double>(init.width) * 4);
}

std::vector<Case<CausalConv1d>> CausalConv1d::cases() {
  return {
      {"one channel", {.dim = 1}, Workload::tokens(1)},
      {"update, odd channels", {.dim = 77, .bias = true}, Workload::batch({{1, 5}, {1, 0}, {1, 40}})},
      {"update, no silu, narrow", {.dim = 40, .width = 2, .silu = false}, Workload::batch({{1, 1}, {1, 9}})},
      {"update, wide", {.dim = 1536, .bias = true}, Workload::batch({{1, 3}})},
      {"ragged, shorter than the window too",
       {.dim = 83, .bias = true},
       Workload::batch({{1, 4}, {2, 7}, {3, 0}, {4, 1}, {37, 20}}, true)},
      {"long", {.dim = 192}, Workload::batch({{150, 3}, {67, 0}}, true)},
      {"width 3", {.dim = 24, .width = 3, .bias = true, .silu = false}, Workload::batch({{9, 2}, {1, 2}}, true)},
      {"width 8", {.dim = 33, .width = 8, .bias = true}, Workload::batch({{3, 2}, {20, 2}, {7, 7}}, true)},
      {"a sequence without tokens", {.dim = 16}, Workload::batch({{0, 5}, {3, 5}, {0, 0}}, true)},
      {"no tokens", {.dim = 8}, Workload::batch({{0, 3}}, true)},
  };
}

std::string_view CausalConv1d::refuse_call(Args args) const {
  if (init_.width < 2 || init_.width > kMaxWidth) return "it has windows of 2 to 8 tokens";
  std::string_view why = refuse_state(*args[1], *args[2], args[3], args[0]->size(0));
  return !why.empty() ? why : refuse_rows({&args[0], &args[1], &args[4]});
}

namespace {

class CausalConv1dOracle final : public CausalConv1d {
 public:
  using CausalConv1d::CausalConv1d;

  void forward(Context&, View x, View conv_state, View state_slots, OptView cu_seqlens, View out) override {
    int64_t W = init_.width;
    for (int64_t s = 0; s < state_slots.size(0); ++s) {
      auto [first, last, slot] = recurrent_sequence(state_slots, cu_seqlens, s);
      for (int64_t c = 0; c < init_.dim; ++c) {
        std::vector<double> seen(static_cast<size_t>(W - 1), 0);
        for (int64_t k = 0; slot >= 0 && k < W - 1; ++k) seen[static_cast<size_t>(k)] = get(conv_state, slot, k, c);
        for (int64_t t = first; t < last; ++t) {
          seen.push_back(get(x, t, c));
          double sum = init_.bias ? get(param(1), c) : 0;
          for (int64_t k = 0; k < W; ++k)
            sum += get(param(0), c, 0, k) * seen[seen.size() - static_cast<size_t>(W - k)];
          set(out, init_.silu ? silu_of(sum) : sum, t, c);
        }
        for (int64_t k = 0; slot >= 0 && k < W - 1; ++k)
          set(conv_state, seen[seen.size() - static_cast<size_t>(W - 1 - k)], slot, k, c);
      }
    }
  }
};

FK_OPERATOR(CausalConv1d, CausalConv1dOracle);

void define_causal_conv1d(const CausalConv1d::Init& init, Definition& d) {
  if (d.has("cu_seqlens")) return d.leave_opaque("the tokens before are in the batch, or in the sequence's state");
  Expr x = d.arg("x"), state = d.arg("conv_state"), slots = d.arg("state_slots");
  Expr window = algebra::beside(gather(state, slots), insert_axis(x, 1), 1);  // [T, W, C]
  Expr weight = transpose(reshape(d.arg("weight"), {init.dim, init.width}), 0, 1);
  Expr y = drop_axis(sum(window * weight, 1), 1);
  if (init.bias) y = y + d.arg("bias");
  d.result("out", init.silu ? y * logistic(y) : y);
  d.result("conv_state", scatter(state, slots, cast(slice(window, 1, 1, init.width - 1), state.dtype())));
}
FK_DEFINITION(CausalConv1d, define_causal_conv1d);

}  // namespace
}  // namespace fk
