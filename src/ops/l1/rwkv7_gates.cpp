#include "ops/l1/rwkv7_gates.h"

#include <cmath>

#include "core/error.h"
#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> RWKV7Gates::params(const Init& init) {
  return {{"k_k", {{init.width()}, init.dtype}}, {"k_a", {{init.width()}, init.dtype}}};
}

OutputSpecs RWKV7Gates::outputs(const Init& init, Args given) {
  const View& k = *given[1];
  const DType exact = k.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  return {TensorSpec{{k.size(0), init.width()}, exact}, TensorSpec{{3, k.size(0), init.width()}, k.dtype()},
          given[4] ? std::optional(TensorSpec{k.shape(), k.dtype()}) : std::nullopt};
}

Inputs RWKV7Gates::inputs(const Init& init, const Workload& w) {
  InputSpec row{{{w.num_tokens(), init.width()}, w.dtype}, Generator::normal()};
  std::optional<InputSpec> first = w.optional_inputs ? std::optional(row) : std::nullopt;
  return {row, row, row, row, first, first};
}

Cost RWKV7Gates::cost(const Init& init, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * init.width()), size = static_cast<double>(dtype_size(w.dtype));
  double read = w.optional_inputs ? 6 : 3;  // v alone is not needed
  return {.read_bytes = (read * n + 2 * static_cast<double>(init.width())) * size,
          .written_bytes = 4 * n + (w.optional_inputs ? 4 : 3) * n * size,
          .vector_flops = 12 * n};
}

Tolerance RWKV7Gates::tolerance(const Init& init, DType dtype) {
  return rounding_tolerance(dtype, static_cast<double>(init.head_dim));
}

std::vector<Case<RWKV7Gates>> RWKV7Gates::cases() {
  return {{"one element", {.num_heads = 1, .head_dim = 1}, Workload::tokens(1)},
          {"odd", {.num_heads = 3, .head_dim = 21}, Workload::tokens(5)},
          {"first value", {.num_heads = 2, .head_dim = 64}, Workload::tokens(3, true)},
          {"wide", {.num_heads = 40, .head_dim = 64, .eps = 1e-24}, Workload::tokens(4, true)},
          {"large eps", {.num_heads = 2, .head_dim = 12, .eps = 0.5}, Workload::tokens(4)},
          {"no tokens", {.num_heads = 2, .head_dim = 8}, Workload::tokens(0, true)}};
}

std::string_view RWKV7Gates::refuse_call(Args args) const {
  if (args[4].has_value() != args[5].has_value() || args[4].has_value() != args[8].has_value())
    return "v_gate, v_first and value come together";
  if (args[6]->dtype() != DType::kF32 || !args[6]->rows_contiguous()) return "decay must be f32 with contiguous rows";
  if (!args[7]->contiguous()) return "mixed must have no gaps";
  return {};
}

namespace {

class RWKV7GatesOracle final : public RWKV7Gates {
 public:
  using RWKV7Gates::RWKV7Gates;

  void forward(Context&, View w, View k, View v, View a, OptView v_gate, OptView v_first, View decay, View mixed,
               OptView value) override {
    if (v_gate.has_value() != v_first.has_value() || v_gate.has_value() != value.has_value())
      throw Error("rwkv7_gates takes v_gate and v_first together, and has a value with them.");
    auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
    const int64_t n = init_.head_dim;
    for (int64_t t = 0; t < k.size(0); ++t) {
      for (int64_t first = 0; first < init_.width(); first += n) {
        double squares = 0;
        for (int64_t i = first; i < first + n; ++i) squares += std::pow(get(k, t, i) * get(k_k(), i), 2);
        for (int64_t i = first; i < first + n; ++i) {
          const double rate = sigmoid(get(a, t, i)), key = get(k, t, i);
          const double unit = key * get(k_k(), i) / std::sqrt(squares + init_.eps);
          set(decay, kDecayScale * sigmoid(get(w, t, i)), t, i);
          set(mixed, key * (1 + (rate - 1) * get(k_a(), i)), 0, t, i);
          set(mixed, -unit, 1, t, i);
          set(mixed, unit * rate, 2, t, i);
          if (value)
            set(*value, get(v, t, i) + (get(*v_first, t, i) - get(v, t, i)) * sigmoid(get(*v_gate, t, i)), t, i);
        }
      }
    }
  }
};

FK_OPERATOR(RWKV7Gates, RWKV7GatesOracle);

void define_rwkv7_gates(const RWKV7Gates::Init& init, Definition& d) {
  using namespace algebra;
  const int64_t tokens = d.arg("k").size(0), heads = init.num_heads, n = init.head_dim;
  auto of_heads = [&](const char* name) { return reshape(cast(d.arg(name), d.real()), {tokens, heads, n}); };
  auto of_weight = [&](const char* name) { return reshape(d.arg(name), {heads, n}); };
  constexpr double kScale = -0.6065306597126334;  // -e^-0.5
  d.result("decay", kScale * logistic(cast(d.arg("w"), d.real())));
  Expr key = of_heads("k"), rate = logistic(of_heads("a")), direction = key * of_weight("k_k");
  Expr unit = direction / sqrt(sum(direction * direction, -1) + init.eps);
  Expr part = iota({3, tokens, heads, n}, 0);
  Expr mixed = select(equal(part, 0.0), key * (1 + (rate - 1) * of_weight("k_a")),
                      select(equal(part, 1.0), broadcast(-unit, part.shape()), unit * rate));
  d.result("mixed", reshape(mixed, {3, tokens, init.width()}));
  if (d.has("v_gate")) d.result("value", d.arg("v") + (d.arg("v_first") - d.arg("v")) * logistic(d.arg("v_gate")));
}
FK_DEFINITION(RWKV7Gates, define_rwkv7_gates);

}  // namespace
}  // namespace fk
