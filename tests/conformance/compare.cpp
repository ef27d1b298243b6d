#include "tests/conformance/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace fk::conformance {
namespace {

std::vector<double> numbers(const View& v) {
  std::vector<double> all(static_cast<size_t>(v.numel()));
  copy_elements(v, View(all.data(), v.shape(), DType::kF64));
  return all;
}

Shape index_of(const Shape& shape, size_t element) {
  Shape index = shape;
  auto rest = static_cast<int64_t>(element);
  for (int d = shape.rank() - 1; d >= 0; --d) {
    index[d] = rest % shape[d];
    rest /= shape[d];
  }
  return index;
}

}  // namespace

std::string difference(const View& result, const View& reference, const Tolerance& tolerance) {
  if (!(result.shape() == reference.shape()))
    return fmt::format("has shape {} instead of {}", result.shape().str(), reference.shape().str());

  const std::vector<double> got = numbers(result), want = numbers(reference);
  double scale = 0;
  for (double ref : want)
    if (std::isfinite(ref)) scale = std::max(scale, std::abs(ref));

  double least = tolerance.of_scale * scale + negligible_error(tolerance, result.dtype());
  auto allowed = [&](double ref) { return tolerance.relative * std::abs(ref) + least; };
  int64_t wrong = 0;
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (got[i] == want[i]) continue;  // equal infinities
    double error = std::abs(got[i] - want[i]), bound = allowed(want[i]);
    if (std::isfinite(got[i]) && std::isfinite(want[i]) && error <= bound) continue;
    double excess = std::isfinite(error) ? error - bound : INFINITY;
    if (wrong++ == 0 || excess > worst) {
      worst = excess;
      where = i;
    }
  }
  if (wrong == 0) return {};
  return fmt::format("{} of {} elements are off, worst at {}: {} instead of {} (allowed {:.3g})", wrong,
                     reference.numel(), index_of(reference.shape(), where).str(), got[where], want[where],
                     allowed(want[where]));
}

}  // namespace fk::conformance
