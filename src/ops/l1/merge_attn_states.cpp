#include "ops/l1/merge_attn_states.h"

#include <cmath>

#include "ops/algebra/pieces.h"
#include "ops/register.h"

namespace fk {

OutputSpecs MergeAttnStates::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs MergeAttnStates::inputs(const Init& init, const Workload& w) {
  int64_t T = w.num_tokens(), H = init.num_heads;
  InputSpec output{{{T, H, init.head_size}, w.dtype}, Generator::normal()};
  // Of thousands of keys, of few, and so far below the other that it has no weight. In intervals, since a factor would
  // leave nothing but such pairs.
  InputSpec lse{{{H, T}, w.dtype == DType::kF64 ? DType::kF64 : DType::kF32}, Generator::uniform_or(-4, 9, -1e30)};
  return {output, lse, output, lse};
}

Cost MergeAttnStates::cost(const Init& init, const Workload& w) {
  auto heads = static_cast<double>(w.num_tokens() * init.num_heads),
       elements = heads * static_cast<double>(init.head_size);
  auto size = static_cast<double>(dtype_size(w.dtype));
  // A side without keys need not be read, and its weight is zero for about one head in four.
  return {.read_bytes = elements * size + 8 * heads, .written_bytes = elements * size, .vector_flops = elements};
}

Tolerance MergeAttnStates::tolerance(const Init&, DType dtype) {
  Tolerance t = rounding_tolerance(dtype, 2);
  return {t.relative, t.of_scale * 4};  // the two sides can cancel
}

std::vector<Case<MergeAttnStates>> MergeAttnStates::cases() {
  return {
      {"smallest", {.num_heads = 1, .head_size = 1}, Workload::tokens(1)},
      {"odd", {.num_heads = 5, .head_size = 27}, Workload::tokens(19)},
      {"heads of 128", {.num_heads = 16, .head_size = 128}, Workload::tokens(33)},
      {"no tokens", {.num_heads = 2, .head_size = 8}, Workload::tokens(0)},
  };
}

namespace {

class MergeAttnStatesOracle final : public MergeAttnStates {
 public:
  using MergeAttnStates::MergeAttnStates;

  void forward(Context&, View prefix_output, View prefix_lse, View suffix_output, View suffix_lse,
               View output) override {
    for (int64_t t = 0; t < output.size(0); ++t)
      for (int64_t h = 0; h < init_.num_heads; ++h) {
        double a = get(prefix_lse, h, t), b = get(suffix_lse, h, t), largest = std::max(a, b);
        double from_a = std::isinf(a) ? 0 : std::exp(a - largest), from_b = std::isinf(b) ? 0 : std::exp(b - largest);
        double sum = from_a + from_b;
        for (int64_t i = 0; i < init_.head_size; ++i) {
          double value = 0;
          if (from_a > 0) value += from_a / sum * get(prefix_output, t, h, i);
          if (from_b > 0) value += from_b / sum * get(suffix_output, t, h, i);
          set(output, value, t, h, i);
        }
      }
  }
};

FK_OPERATOR(MergeAttnStates, MergeAttnStatesOracle);

void define_merge_attn_states(const MergeAttnStates::Init&, Definition& d) {
  auto lse = [&](const char* name) { return insert_axis(transpose(d.arg(name), 0, 1), 2); };  // [T, H, 1]
  Expr a = lse("prefix_lse"), b = lse("suffix_lse"), top = max(a, b);
  auto weight = [&](const Expr& x) { return select(equal(abs(x), INFINITY), 0, exp(x - top)); };
  Expr from_a = weight(a), from_b = weight(b), total = from_a + from_b;
  // The output of a side without keys may be anything.
  auto share = [&](const Expr& from, const char* name) {
    return select(algebra::constant(0) < from, from / total * d.arg(name), 0);
  };
  d.result("output", share(from_a, "prefix_output") + share(from_b, "suffix_output"));
}
FK_DEFINITION(MergeAttnStates, define_merge_attn_states);

}  // namespace
}  // namespace fk
