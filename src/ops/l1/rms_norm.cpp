#include "ops/l1/rms_norm.h"

#include <algorithm>

#include "ops/l1/rms_norm_oracle.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> RMSNorm::params(const Init& init) { return {{"weight", {{init.hidden_size}, init.dtype}}}; }

OutputSpecs RMSNorm::outputs(const Init&, Args given) {
  const OptView& residual = given[1];
  return {given[0]->spec(), residual ? std::optional(residual->spec()) : std::nullopt};
}

namespace {
// Norms of heads have no residual, whatever the workload says.
bool has_residual(const Workload& w) { return w.optional_inputs && w.width == 0; }
}  // namespace

Inputs RMSNorm::inputs(const Init& init, const Workload& w) {
  Shape x = w.width > 0 ? Shape{w.num_tokens(), w.width, init.hidden_size} : Shape{w.num_tokens(), init.hidden_size};
  InputSpec input{{x, w.dtype}, Generator::normal()};
  return {input, has_residual(w) ? std::optional(input) : std::nullopt};
}

Cost RMSNorm::cost(const Init& init, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * std::max<int64_t>(w.width, 1) * init.hidden_size);
  double tensors = has_residual(w) ? 2 : 1;  // read, and as many written
  auto size = static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = (tensors * n + static_cast<double>(init.hidden_size)) * size,
          .written_bytes = tensors * n * size,
          .vector_flops = (has_residual(w) ? 5 : 4) * n};
}

Tolerance RMSNorm::tolerance(const Init& init, DType dtype) {
  // The sum with the residual is rounded to dtype before it is normalised, which moves out by one more rounding.
  Tolerance t = rounding_tolerance(dtype, static_cast<double>(init.hidden_size));
  return {t.relative + dtype_epsilon(dtype), t.of_scale};
}

std::vector<Case<RMSNorm>> RMSNorm::cases() {
  return {
      {"one element", {.hidden_size = 1}, Workload::tokens(1)},
      {"odd tail", {.hidden_size = 77, .eps = 1e-5}, Workload::tokens(3)},
      {"odd tail with residual", {.hidden_size = 131}, Workload::tokens(5, true)},
      {"wide", {.hidden_size = 2048}, Workload::tokens(4, true)},
      {"many rows", {.hidden_size = 64}, Workload::tokens(67)},
      {"large eps", {.hidden_size = 48, .eps = 0.5}, Workload::tokens(2, true)},
      {"heads", {.hidden_size = 24}, Workload::rows(5, 3)},
      {"no tokens", {.hidden_size = 16}, Workload::tokens(0)},
  };
}

namespace {
using RMSNormOracle = NormOracle<RMSNorm>;
FK_OPERATOR(RMSNorm, RMSNormOracle);

void define_rms_norm(const RMSNorm::Init& init, Definition& d) { define_norm<RMSNorm>(init, d); }
FK_DEFINITION(RMSNorm, define_rms_norm);
}  // namespace
}  // namespace fk
