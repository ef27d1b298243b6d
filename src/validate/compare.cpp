#include "validate/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace fk {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
double wide(T x) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<double>(x);
  else
    return static_cast<double>(static_cast<float>(x));
}

template <class T>
double rounded(double x) {
  if constexpr (std::is_same_v<T, double>)
    return x;
  else if constexpr (std::is_same_v<T, float>)
    return static_cast<double>(static_cast<float>(x));
  else
    return wide(T(static_cast<float>(x)));
}

// Calls visit(const T*) with the type of the view's elements, so that loops over elements contain no switch.
template <class Visit>
auto with_floats(const View& v, Visit&& visit) {
  switch (v.dtype()) {
    case DType::kF64:
      return visit(static_cast<const double*>(v.data()));
    case DType::kF32:
      return visit(static_cast<const float*>(v.data()));
    case DType::kF16:
      return visit(static_cast<const f16*>(v.data()));
    case DType::kBF16:
      return visit(static_cast<const bf16*>(v.data()));
    case DType::kF8E4M3:
      return visit(static_cast<const f8e4m3*>(v.data()));
    default:
      FK_CHECK(v.dtype() == DType::kF8E5M2, "a float dtype without a comparison");
      return visit(static_cast<const f8e5m2*>(v.data()));
  }
}

Shape unravel(int64_t flat, const Shape& shape) {
  Shape index = shape;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  return index;
}

Comparison refused(Comparison::Fault fault, std::string sentence) {
  Comparison c;
  c.fault = fault;
  c.sentence = std::move(sentence);
  c.ratio = kInfinity;
  return c;
}

// The result of one pass over the elements.
struct Tally {
  int64_t wrong = 0;
  int64_t worst = -1;
  double ratio = 0;
  double largest = 0;
  double sum_of_squares = 0;
  double allowed = 0;  // at the worst element
};

// A single element may be unchanged by chance; an unchanged row was not meant to be written.
template <class T>
bool row_unchanged(const double* want, const T* before, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (wide(before[i]) != want[i]) return false;
  return true;
}

// Calls visit(index, error, allowed error) for every element.
template <class T, class Visit>
void each_error(const T* got, const double* want, const T* before, int64_t n, int64_t row, const Bounds& bounds,
                Visit&& visit) {
  bool untouched = false;
  for (int64_t i = 0; i < n; ++i) {
    double x = wide(got[i]), ref = want[i];
    double error = std::abs(x - ref), allowed = bounds.absolute + bounds.relative * std::abs(ref);
    if (before != nullptr && i % row == 0) untouched = row_unchanged(want + i, before + i, row);
    if (untouched) allowed = 0;
    if (!std::isfinite(error)) {
      // Equal infinities, or a reference too large for the dtype: the right answer is then infinity. The bound of an
      // infinite reference would be infinite too and allow anything.
      error = x == rounded<T>(ref) ? 0 : kInfinity;
      allowed = 0;
    }
    visit(i, error, allowed);
  }
}

// Adds one block without states and with finite errors, in loops that are vectorised. False if an error is not finite
// or, as a share of the allowed one, larger than all before: the caller then looks at each element.
template <class T>
bool tally_block(const T* got, const double* want, int64_t n, const Bounds& bounds, Tally& t) {
  double largest = 0, squares = 0;
  int64_t wrong = 0, worse = 0;
  const double ratio = t.ratio * (1 - 1e-15);  // a product is rounded otherwise than a quotient
#pragma omp simd reduction(max : largest) reduction(+ : squares, wrong, worse)
  for (int64_t i = 0; i < n; ++i) {
    double error = std::abs(wide(got[i]) - want[i]), allowed = bounds.absolute + bounds.relative * std::abs(want[i]);
    wrong += error <= allowed ? 0 : 1;
    worse += error > ratio * allowed ? 1 : 0;
    largest = error > largest ? error : largest;
    squares += error * error;  // NaN and infinity stay
  }
  if (worse > 0 || !std::isfinite(squares)) return false;
  t.wrong += wrong;
  t.largest = std::max(t.largest, largest);
  t.sum_of_squares += squares;
  return true;
}

template <class T>
Tally tally_floats(const T* got, const double* want, const T* before, int64_t n, int64_t row, const Bounds& bounds) {
  Tally t;
  auto each = [&](int64_t from, int64_t count, const T* old) {
    each_error(got + from, want + from, old, count, row, bounds, [&](int64_t i, double error, double allowed) {
      bool right = error <= allowed;
      double ratio = error == 0 ? 0 : error / allowed;
      if (!right) ++t.wrong;
      if (ratio > t.ratio || t.worst < 0) {
        t.ratio = ratio;
        t.worst = from + i;
        t.allowed = allowed;
      }
      t.largest = std::max(t.largest, error);
      t.sum_of_squares += error * error;
    });
  };
  if (before != nullptr) {
    each(0, n, before);
    return t;
  }
  constexpr int64_t kBlock = 1024;
  for (int64_t from = 0; from < n; from += kBlock) {
    const int64_t count = std::min(kBlock, n - from);
    if (t.worst < 0 || !tally_block(got + from, want + from, count, bounds, t)) each(from, count, nullptr);
  }
  return t;
}

bool any_nan(const double* values, int64_t n) {
  bool found = false;
  for (int64_t i = 0; i < n; ++i) found |= std::isnan(values[i]);
  return found;
}

Comparison compare_floats(const View& result, const View& reference, const Bounds& bounds, const View* before) {
  int64_t n = result.numel();
  const auto* want = reference.ptr<double>();
  if (any_nan(want, n)) return refused(Comparison::Fault::kReference, "has NaN in its reference");
  Tally t = with_floats(result, [&]<class T>(const T* got) {
    const T* old = before != nullptr ? static_cast<const T*>(before->data()) : nullptr;
    return tally_floats(got, want, old, n, result.rank() > 0 ? result.size(-1) : 1, bounds);
  });
  Comparison c;
  c.elements = n;
  if (n == 0) return c;
  c.wrong = t.wrong;
  c.ratio = t.ratio;
  c.worst = unravel(t.worst, result.shape());
  c.got = load_element(result.at(c.worst.extents()), result.dtype());
  c.want = want[t.worst];
  c.largest_error = t.largest;
  c.rms_error = std::sqrt(t.sum_of_squares / static_cast<double>(n));
  if (t.wrong > 0) {
    c.fault = Comparison::Fault::kElement;
    // The sign of a NaN says nothing, nor does the allowed error: none makes it right.
    const std::string got = std::isnan(c.got) ? "nan" : fmt::format("{}", c.got);
    const std::string allowed = std::isfinite(c.got) ? fmt::format(" (allowed ± {:.3g})", t.allowed) : "";
    c.sentence = fmt::format("{} of {} elements are off, worst at {}: {} instead of {}{}", t.wrong, n, c.worst.str(),
                             got, c.want, allowed);
  } else if (!(c.largest_error <= bounds.largest_error)) {
    c.fault = Comparison::Fault::kLargest;
    c.ratio = c.largest_error / bounds.largest_error;
    c.sentence =
        fmt::format("the largest error is {:.3g} where {:.3g} is allowed", c.largest_error, bounds.largest_error);
  } else if (!(c.rms_error <= bounds.rms_error)) {
    c.fault = Comparison::Fault::kMeanSquare;
    c.ratio = c.rms_error / bounds.rms_error;
    c.sentence = fmt::format(
        "errors are small one by one but large together: root mean square {:.3g} where {:.3g} is "
        "allowed",
        c.rms_error, bounds.rms_error);
  }
  return c;
}

Comparison compare_integers(const View& result, const View& reference) {
  int64_t n = result.numel();
  size_t size = dtype_size(result.dtype());
  const auto* got = static_cast<const std::byte*>(result.data());
  const auto* want = static_cast<const std::byte*>(reference.data());
  Comparison c;
  c.elements = n;
  for (int64_t i = 0; i < n; ++i) {
    size_t at = static_cast<size_t>(i) * size;
    if (std::equal(got + at, got + at + size, want + at)) continue;
    if (c.wrong++ > 0) continue;
    c.worst = unravel(i, result.shape());
    c.got = load_element(got + at, result.dtype());
    c.want = load_element(want + at, reference.dtype());
  }
  if (c.wrong > 0) {
    c.fault = Comparison::Fault::kElement;
    c.ratio = kInfinity;
    c.sentence = fmt::format("{} of {} integers are wrong, first at {}: {} instead of {}", c.wrong, n, c.worst.str(),
                             c.got, c.want);
  }
  return c;
}

struct Magnitudes {
  double largest = 0;
  double sum = 0;
  double sum_of_squares = 0;
};

Magnitudes magnitudes(const View& reference) {
  Magnitudes m;
  const auto* values = reference.ptr<double>();
  for (int64_t i = 0; i < reference.numel(); ++i) {
    double a = std::abs(values[i]);
    if (!std::isfinite(a)) continue;
    m.largest = std::max(m.largest, a);
    m.sum += a;
    m.sum_of_squares += a * a;
  }
  return m;
}

// The share of the contract's tolerance that is always allowed: the maximum of few errors is a poor estimate of how
// large an honest error can be. Errors within a row are correlated, so a row counts as at most 16.
double least_share(const Shape& shape) {
  constexpr double kErrors = 2000, kPerRow = 16;
  double row = shape.rank() > 0 ? static_cast<double>(std::max<int64_t>(shape[-1], 1)) : 1;
  double errors = std::max(static_cast<double>(shape.numel()) / row * std::min(row, kPerRow), 1.0);
  return std::clamp(kLeastShare * std::pow(kErrors / errors, 0.25), kLeastShare, 1.0);
}

}  // namespace

Comparison compare(const View& result, const View& reference, const Bounds& bounds, const View* before) {
  if (!(result.shape() == reference.shape()))
    return refused(Comparison::Fault::kShape,
                   fmt::format("has the shape {} instead of {}", result.shape().str(), reference.shape().str()));
  FK_CHECK(result.contiguous() && reference.contiguous(), "only dense tensors are compared");
  FK_CHECK(before == nullptr || before->spec() == result.spec());
  if (dtype_is_float(result.dtype())) return compare_floats(result, reference, bounds, before);
  FK_CHECK(result.dtype() == reference.dtype());
  return compare_integers(result, reference);
}

Comparison compare(const View& result, DType dtype, const View& reference, const Bounds& bounds, const View* before) {
  if (result.dtype() != dtype)
    return refused(Comparison::Fault::kDtype,
                   fmt::format("is {} instead of {}", dtype_name(result.dtype()), dtype_name(dtype)));
  return compare(result, reference, bounds, before);
}

std::vector<uint8_t> wrong_elements(const View& result, const View& reference, const Bounds& bounds,
                                    const View* before) {
  auto n = static_cast<size_t>(result.numel());
  std::vector<uint8_t> wrong(n);
  if (!dtype_is_float(result.dtype())) {
    size_t size = dtype_size(result.dtype());
    const auto* got = static_cast<const std::byte*>(result.data());
    const auto* want = static_cast<const std::byte*>(reference.data());
    for (size_t i = 0; i < n; ++i) wrong[i] = std::equal(got + i * size, got + (i + 1) * size, want + i * size) ? 0 : 1;
    return wrong;
  }
  auto mark = [&](auto&& is_wrong) {
    bool any = false;
    with_floats(result, [&]<class T>(const T* got) {
      const T* old = before != nullptr ? static_cast<const T*>(before->data()) : nullptr;
      each_error(got, reference.ptr<double>(), old, result.numel(), result.rank() > 0 ? result.size(-1) : 1, bounds,
                 [&](int64_t i, double error, double allowed) {
                   bool is = is_wrong(error, allowed);
                   wrong[static_cast<size_t>(i)] = is ? 1 : 0;
                   any |= is;
                 });
    });
    return any;
  };
  if (mark([](double error, double allowed) { return !(error <= allowed); })) return wrong;
  // All elements are within their own bounds: mark those that break the bounds of the whole tensor.
  if (!mark([&](double error, double) { return !(error <= bounds.largest_error); }))
    mark([&](double error, double) { return !(error <= bounds.rms_error); });
  return wrong;
}

Calibration calibrate(const View& baseline, const View& reference, const Tolerance& contract, const Tolerance& least,
                      double typical_ratio) {
  Calibration calibration;
  bool is_exact = contract.relative == 0 && contract.of_scale == 0;
  if (is_exact || !dtype_is_float(baseline.dtype())) {
    calibration.usable = compare(baseline, reference, Bounds::exact()).ok();
    calibration.baseline_ratio = calibration.usable ? 0 : kInfinity;
    return calibration;
  }
  Magnitudes m = magnitudes(reference);
  int64_t n = std::max<int64_t>(reference.numel(), 1);
  double smallest = negligible_error(contract, baseline.dtype()), half_ulp = dtype_epsilon(baseline.dtype()) / 2;
  Comparison own =
      compare(baseline, reference, {contract.relative, contract.of_scale * m.largest + smallest, kInfinity, kInfinity});
  calibration.baseline_ratio = own.ratio;
  calibration.usable = own.ok();

  double ratio = std::max(own.ratio, typical_ratio);
  double share = std::min(kBaselineFactor * ratio, kContractFactor), floor = least_share(reference.shape());
  Bounds& b = calibration.bounds;
  b.relative = half_ulp + std::max(share * contract.relative, floor * least.relative);
  b.absolute = smallest + m.largest * std::max(share * contract.of_scale, floor * least.of_scale);
  double contract_largest = (contract.relative + contract.of_scale) * m.largest;
  double own_largest = std::max(own.largest_error, typical_ratio * contract_largest);
  b.largest_error = smallest + half_ulp * m.largest +
                    std::max(std::min(kBaselineFactor * own_largest, kContractFactor * contract_largest),
                             floor * (least.relative + least.of_scale) * m.largest);
  // Errors of honest kernels are well within the bounds of their elements. For a single element no tighter bound is
  // possible.
  double inside = 0.7 + 0.3 / std::sqrt(static_cast<double>(n));
  double mean_square =
      b.absolute * b.absolute +
      (2 * b.absolute * b.relative * m.sum + b.relative * b.relative * m.sum_of_squares) / static_cast<double>(n);
  b.rms_error = std::max(kBaselineFactor * own.rms_error, inside * std::sqrt(mean_square));
  return calibration;
}

bool exact_integers(const View& reference) {
  if (reference.dtype() != DType::kF64) return false;
  const auto* values = reference.ptr<double>();
  return std::all_of(values, values + reference.numel(),
                     [](double x) { return std::abs(x) <= 0x1p24 && x == std::trunc(x); });
}

Bounds rounding_bounds(const View& reference, DType dtype) {
  double half_ulp = dtype_epsilon(dtype) / 2, smallest = negligible_error({half_ulp, 0}, dtype);
  double largest = half_ulp * magnitudes(reference).largest + smallest;
  return {half_ulp, smallest, largest, largest};
}

}  // namespace fk
