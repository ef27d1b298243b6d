#include "ops/l1/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> LayerNorm::params(const Init& init) {
  Shape shape = init.num_heads > 0 ? Shape{init.num_heads, init.hidden_size} : Shape{init.hidden_size};
  std::vector<ParamSpec> params = {{"weight", {shape, init.dtype}}};
  if (init.bias) params.push_back({"bias", {shape, init.dtype}});
  return params;
}

OutputSpecs LayerNorm::outputs(const Init&, Args given) {
  const OptView& residual = given[1];
  return {given[0]->spec(), residual ? std::optional(residual->spec()) : std::nullopt};
}

namespace {
int64_t heads_of(const LayerNorm::Init& init, const Workload& w) {
  return init.num_heads > 0 ? init.num_heads : w.width;
}
// Norms of heads have no residual, whatever the workload says.
bool has_residual(const LayerNorm::Init& init, const Workload& w) {
  return w.optional_inputs && heads_of(init, w) == 0;
}
}  // namespace

Inputs LayerNorm::inputs(const Init& init, const Workload& w) {
  int64_t heads = heads_of(init, w);
  Shape x = heads > 0 ? Shape{w.num_tokens(), heads, init.hidden_size} : Shape{w.num_tokens(), init.hidden_size};
  InputSpec input{{x, w.dtype}, Generator::normal(0.5, 1)};  // a mean that an RMS norm would keep
  return {input, has_residual(init, w) ? std::optional(input) : std::nullopt};
}

Cost LayerNorm::cost(const Init& init, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * std::max<int64_t>(heads_of(init, w), 1) * init.hidden_size);
  double tensors = has_residual(init, w) ? 2 : 1;  // read, and as many written
  auto size = static_cast<double>(dtype_size(w.dtype));
  double weights = static_cast<double>(init.hidden_size * std::max<int64_t>(init.num_heads, 1)) * (init.bias ? 2 : 1);
  return {.read_bytes = (tensors * n + weights) * size,
          .written_bytes = tensors * n * size,
          .vector_flops = (has_residual(init, w) ? 7 : 6) * n};
}

Tolerance LayerNorm::tolerance(const Init& init, DType dtype) {
  // As of RMSNorm: the sum with the residual is rounded before it is normed. The mean can cancel most of a value.
  Tolerance t = rounding_tolerance(dtype, static_cast<double>(init.hidden_size));
  return {t.relative + dtype_epsilon(dtype), 2 * t.of_scale + dtype_epsilon(dtype)};
}

std::vector<Case<LayerNorm>> LayerNorm::cases() {
  return {
      {"two elements", {.hidden_size = 2}, Workload::tokens(1)},
      {"odd tail", {.hidden_size = 77}, Workload::tokens(3)},
      {"odd tail with residual", {.hidden_size = 131}, Workload::tokens(5, true)},
      {"bias", {.hidden_size = 96, .bias = true}, Workload::tokens(4, true)},
      {"wide", {.hidden_size = 2048}, Workload::tokens(4, true)},
      {"many rows", {.hidden_size = 64}, Workload::tokens(67)},
      {"large eps", {.hidden_size = 48, .eps = 0.5}, Workload::tokens(2, true)},
      {"heads", {.hidden_size = 24}, Workload::rows(5, 3)},
      {"heads with a weight each", {.hidden_size = 20, .num_heads = 3, .bias = true}, Workload::tokens(5)},
      {"no tokens", {.hidden_size = 16}, Workload::tokens(0)},
  };
}

std::string_view LayerNorm::refuse_call(Args args) const {
  if (args[1].has_value() != args[3].has_value()) return "residual and residual_out come together";
  if (args[1] && args[0]->rank() != 2) return "a residual is added to rows of tokens only, not of heads";
  if (init_.num_heads > 0 && (args[0]->rank() != 3 || args[0]->size(1) != init_.num_heads))
    return "weights of heads need as many heads";
  return {};
}

namespace {

class LayerNormOracle final : public LayerNorm {
 public:
  using LayerNorm::LayerNorm;

  void forward(Context&, View x, OptView residual, View out, OptView residual_out) override {
    auto row = [](const OptView& v, int64_t t) { return v ? OptView(v->select(0, t)) : std::nullopt; };
    for (int64_t t = 0; t < x.size(0); ++t) {
      if (x.rank() == 2) {
        normalise(x.select(0, t), row(residual, t), weight(), bias(), out.select(0, t), row(residual_out, t));
        continue;
      }
      for (int64_t h = 0; h < x.size(1); ++h) {
        bool own = init_.num_heads > 0;
        normalise(x.select(0, t).select(0, h), {}, own ? weight().select(0, h) : weight(),
                  own ? row(bias(), h) : bias(), out.select(0, t).select(0, h), {});
      }
    }
  }

 private:
  void normalise(const View& x, const OptView& residual, const View& weight, const OptView& bias, const View& out,
                 const OptView& residual_out) const {
    int64_t D = init_.hidden_size;
    std::vector<double> sum(static_cast<size_t>(D));
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < D; ++i) {
      sum[i] = get(x, i) + (residual ? get(*residual, i) : 0);
      mean += sum[i] / static_cast<double>(D);
    }
    for (double value : sum) squares += (value - mean) * (value - mean);
    double scale = 1 / std::sqrt(squares / static_cast<double>(D) + init_.eps);
    for (int64_t i = 0; i < D; ++i) {
      set(out, (sum[i] - mean) * scale * get(weight, i) + (bias ? get(*bias, i) : 0), i);
      if (residual_out) set(*residual_out, sum[i], i);
    }
  }
};

FK_OPERATOR(LayerNorm, LayerNormOracle);

void define_layer_norm(const LayerNorm::Init& init, Definition& d) {
  Expr x = d.arg("x");
  if (d.has("residual")) {
    x = x + d.arg("residual");
    d.result("residual_out", x);
  }
  Expr centred = x - mean(x, -1);
  Expr out = centred / sqrt(mean(centred * centred, -1) + init.eps) * d.arg("weight");
  d.result("out", init.bias ? out + d.arg("bias") : out);
}
FK_DEFINITION(LayerNorm, define_layer_norm);

}  // namespace
}  // namespace fk
