#include "tests/conformance/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fk::conformance {
namespace {

template <class Visit>
void each_index(const Shape& shape, Visit&& visit) {
  Shape index = shape;
  for (int d = 0; d < shape.rank(); ++d) index[d] = 0;
  for (int64_t i = 0, n = shape.numel(); i < n; ++i) {
    visit(index);
    for (int d = shape.rank() - 1; d >= 0 && ++index[d] == shape[d]; --d) index[d] = 0;
  }
}

double element(const View& v, const Shape& index) { return load_element(v.at(index.extents()), v.dtype()); }

}  // namespace

std::string difference(const View& result, const View& reference, const Tolerance& tolerance) {
  if (!(result.shape() == reference.shape()))
    return fmt::format("has shape {} instead of {}", result.shape().str(), reference.shape().str());

  double scale = 0;
  each_index(reference.shape(), [&](const Shape& at) {
    double ref = std::abs(element(reference, at));
    if (std::isfinite(ref)) scale = std::max(scale, ref);
  });

  double least = tolerance.of_scale * scale + negligible_error(tolerance, result.dtype());
  auto allowed = [&](double ref) { return tolerance.relative * std::abs(ref) + least; };
  int64_t wrong = 0;
  double worst = 0;
  Shape where;
  each_index(reference.shape(), [&](const Shape& at) {
    double got = element(result, at), ref = element(reference, at);
    if (got == ref) return;  // equal infinities
    double error = std::abs(got - ref), bound = allowed(ref);
    if (std::isfinite(got) && std::isfinite(ref) && error <= bound) return;
    double excess = std::isfinite(error) ? error - bound : INFINITY;
    if (wrong++ == 0 || excess > worst) {
      worst = excess;
      where = at;
    }
  });
  if (wrong == 0) return {};
  double got = element(result, where), ref = element(reference, where);
  return fmt::format("{} of {} elements are off, worst at {}: {} instead of {} (allowed {:.3g})", wrong,
                     reference.numel(), where.str(), got, ref, allowed(ref));
}

}  // namespace fk::conformance
