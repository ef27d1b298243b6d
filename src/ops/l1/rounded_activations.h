// The tolerance of products whose other factor may be rounded to 8 bits: quantised weights make that usual, because
// integer and FP8 products are fast.
#pragma once

#include <string_view>

#include "ops/contract.h"
#include "ops/formats/scaled_format.h"

namespace fk {

// The deviation of the rounding error of normal numbers, as a part of their own, if `group` of them have one scale.
double int8_deviation(double group);

// `deviation`: of an output's error, as a part of the outputs' own deviation. Both are sums of many terms, so both are
// near normal: the largest output is about as many of its deviations as normal numbers reach, and no error is beyond
// 6.5 of its own. A kernel that keeps one bit less of the activations doubles the deviation and is beyond this in 1 of
// 1000 outputs.
Tolerance with_deviation(Tolerance tolerance, double deviation, double outputs);

// The same for the rounding of normal numbers in rows of `columns`.
Tolerance with_usual_deviation(Tolerance tolerance, const ActivationRounding& rounding, int64_t columns,
                               int64_t outputs);
// Of these activations [T, columns]: outliers make the steps of their groups larger. Weights have no part in this:
// errors and outputs grow with them alike.
Tolerance with_deviation_of(Tolerance tolerance, const View& x, const ActivationRounding& rounding, int64_t outputs);

// What rounding adds to the tolerance of a block of several products. weight_format: as in ops/formats/format_map.h.
// `roundings`: how many times the error of one product reaches the output. Usually two products are behind each other,
// with an activation between them that can double the error of the first.
Tolerance with_rounded_activations(Tolerance tolerance, std::string_view weight_format, double roundings = 3);

}  // namespace fk
