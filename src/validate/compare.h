// Compares a written tensor with its float64 reference, and sets the bounds it has to keep.
//
// The contract's tolerance says how an error may grow with the value; the baseline's own error says how much of it is
// needed. With S = max|ref|, T(ref) = relative |ref| + of_scale S as the contract states it, and r = the baseline's
// largest error / T, on the same inputs or on typical ones if that is more, an element passes when
//
//   |x - ref| <= half an ulp of the output's dtype + negligible_error + k T(ref),   k = clamp(3 r, least, 3)
//
// so a candidate may be three times as wrong as the baseline, and no more than three times the contract. `least` keeps
// a baseline that was lucky on few elements from failing an honest candidate: it falls from 1 for one element to 0.2
// for 2000 independent errors and more. Two bounds on the whole tensor follow the same rule: the largest error, and the
// root mean square of all errors, which a kernel that is a little wrong everywhere breaks first. Where the contract's
// tolerance is zero (copies, indices) everything is exact.
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

inline constexpr double kBaselineFactor = 3;  // a candidate may be this much worse than the baseline
inline constexpr double kContractFactor = 3;  // and never worse than this many contract tolerances
inline constexpr double kLeastShare = 0.2;    // of the contract's tolerance, which is always allowed

struct Comparison {
  enum class Fault : uint8_t {
    kNone,
    kDtype,
    kShape,
    kElement,     // an element is out of bounds, NaN, or infinite where the reference is not
    kLargest,     // all elements are in their bounds, the largest error is not
    kMeanSquare,  // all elements are in their bounds, their errors together are not
    kReference,   // the reference is NaN: no answer can be right
  };
  Fault fault = Fault::kNone;
  std::string sentence;  // what is wrong, to stand behind the tensor's name; empty when nothing is
  double ratio = 0;      // largest error / its bound; above 1 is a fault, infinity where no number can say it
  Shape worst;           // where that is
  double got = 0;        // there
  double want = 0;       //
  int64_t elements = 0;  // compared
  int64_t wrong = 0;     // out of bounds
  double largest_error = 0;
  double rms_error = 0;

  bool ok() const { return fault == Fault::kNone; }
};

// `reference` is f64 for floats and of the result's dtype for integers; both are dense. NaN equals nothing, not even
// NaN. A reference that rounds to an infinity of `result`'s dtype wants that infinity. With `before`, the tensor's
// content before the call, rows that the reference leaves as they were must be equal to it: the part of a state that a
// call does not own.
Comparison compare(const View& result, const View& reference, const Bounds& bounds, const View* before = nullptr);

// What `dtype` is expected to have: equal to the result's, or it is refused before anything is read.
Comparison compare(const View& result, DType dtype, const View& reference, const Bounds& bounds,
                   const View* before = nullptr);

// 1 for each element that is out of its bounds. Where none is, for those beyond the bounds of the whole tensor. Shapes
// and dtypes are those that compare() takes.
std::vector<uint8_t> wrong_elements(const View& result, const View& reference, const Bounds& bounds,
                                    const View* before = nullptr);

struct Calibration {
  Bounds bounds;
  double baseline_ratio = 0;  // the baseline's largest error / the contract's tolerance, its rounding included
  bool usable = true;         // false where the baseline breaks its own contract: these inputs judge nobody
};

// Bounds for candidates on the inputs that `baseline` and `reference` were computed from. `contract` is the operator's
// tolerance in the dtype it computes in; `least` that in the dtype of this output, which is stricter where results are
// kept in a wider one (logits). `typical_ratio` is a baseline_ratio seen on typical inputs: one call of few tokens may
// be luck.
Calibration calibrate(const View& baseline, const View& reference, const Tolerance& contract, const Tolerance& least,
                      double typical_ratio = 0);

// Whether every value is an integer that float holds exactly. Sums and products that end there were exact in any order,
// so nothing but the rounding of the output is left to allow.
bool exact_integers(const View& reference);
// Half an ulp of `dtype`, what is negligible in it, and nothing else.
Bounds rounding_bounds(const View& reference, DType dtype);

}  // namespace fk
