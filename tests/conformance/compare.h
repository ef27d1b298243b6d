// Compares a result with its reference, element by element; a NaN is never close to anything.
#pragma once

#include <string>

#include "core/tensor.h"
#include "ops/workload.h"

namespace fk::conformance {

// Empty when |result - reference| <= relative * |reference| + of_scale * max|reference| everywhere, up to numbers too
// small for the dtype (subnormal ones may be flushed to zero); else the element that is furthest out, with both values.
std::string difference(const View& result, const View& reference, const Tolerance& tolerance);

}  // namespace fk::conformance
