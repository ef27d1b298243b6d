// Compares a written tensor with its float64 reference, and computes the error bounds.
//
// The contract's tolerance defines how an error may grow with the value; the baseline's own error shows how much of it
// is needed. With S = max|ref|, T(ref) = relative |ref| + of_scale S from the contract, and r = the baseline's largest
// error / T (on the same inputs or on typical ones, whichever is larger), an element passes if
//
//   |x - ref| <= half an ulp of the output's dtype + negligible_error + k T(ref),   k = clamp(3 r, least, 3)
//
// so a candidate's error may be three times that of the baseline, and at most three times the contract's tolerance.
// `least` protects an honest candidate if the baseline was accurate by chance on few elements: it falls from 1 for one
// element to 0.2 for 2000 or more independent errors. Two bounds on the whole tensor follow the same rule: the largest
// error, and the root mean square of all errors, which detects a kernel that is slightly wrong everywhere. If the
// contract's tolerance is zero (copies, indices), results must be exact.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "ops/workload.h"

namespace fk {

struct Bounds {
  double relative = 0;       // |x - ref| <= absolute + relative * |ref|
  double absolute = 0;       //
  double largest_error = 0;  // of any element
  double rms_error = 0;      // of all elements; squared and over mean(ref^2) it bounds the normalised mean square error

  static Bounds exact() { return {}; }
};

inline constexpr double kBaselineFactor = 3;  // a candidate's error may be this many times the baseline's
inline constexpr double kContractFactor = 3;  // and at most this many times the contract's tolerance
inline constexpr double kLeastShare = 0.2;    // share of the contract's tolerance that is always allowed

struct Comparison {
  enum class Fault : uint8_t {
    kNone,
    kDtype,
    kShape,
    kElement,     // an element is out of bounds, NaN, or infinite where the reference is not
    kLargest,     // all elements are within their bounds, but the largest error is too large
    kTypical,     // the median of the errors is too large (call_check.h)
    kMeanSquare,  // all elements are within their bounds, but the mean square error is too large
    kReference,   // the reference is NaN: no result can be right
  };
  Fault fault = Fault::kNone;
  std::string sentence;  // what is wrong, to follow the tensor's name; empty if nothing is wrong
  double ratio = 0;      // largest error / its bound; above 1 is a fault, infinity if there is no finite ratio
  Shape worst;           // index of the worst element
  double got = 0;        // its value
  double want = 0;       // its reference
  int64_t elements = 0;  // compared
  int64_t wrong = 0;     // out of bounds
  double largest_error = 0;
  double rms_error = 0;

  bool ok() const { return fault == Fault::kNone; }
};

// `reference` is f64 for floats and of the result's dtype for integers; both are dense. NaN equals nothing, not even
// NaN. If the reference rounds to infinity in `result`'s dtype, the result must be that infinity. `before` is the
// tensor's content before the call: rows that the reference does not change must be equal to it, since that part of a
// state does not belong to the call.
Comparison compare(const View& result, const View& reference, const Bounds& bounds, const View* before = nullptr);

// `dtype` is the expected dtype: if the result's dtype differs, it is refused before anything is read.
Comparison compare(const View& result, DType dtype, const View& reference, const Bounds& bounds,
                   const View* before = nullptr);

// 1 for each element that is out of its bounds. If there is none, 1 for each element beyond the bounds of the whole
// tensor. Shapes and dtypes as in compare().
std::vector<uint8_t> wrong_elements(const View& result, const View& reference, const Bounds& bounds,
                                    const View* before = nullptr);

struct Calibration {
  Bounds bounds;
  double baseline_ratio = 0;  // the baseline's largest error / the contract's tolerance, its rounding included
  bool usable = true;         // false if the baseline breaks its own contract: these inputs cannot judge a candidate
};

// Bounds for candidates on the inputs that `baseline` and `reference` were computed from. `contract` is the operator's
// tolerance in the dtype it computes in; `least` is that in the dtype of this output, which is stricter if results have
// a wider dtype (logits). `typical_ratio` is a baseline_ratio on typical inputs, since a single call of few tokens may
// be accurate by chance.
Calibration calibrate(const View& baseline, const View& reference, const Tolerance& contract, const Tolerance& least,
                      double typical_ratio = 0);

// Whether every value is an integer that float represents exactly. Then sums and products were exact in any order, and
// only the rounding of the output is allowed.
bool exact_integers(const View& reference);
// Bounds of half an ulp of `dtype` plus its negligible error.
Bounds rounding_bounds(const View& reference, DType dtype);

}  // namespace fk
