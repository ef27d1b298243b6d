// Activations rounded to FP8 e4m3 with one scale for the elements of a group: what operators that produce them have in
// common. A scale is the largest size in its group / 448, at least 1e-10 / 448, and an element is divided by it.
//
// Outputs are compared as dequantised values: scales may differ by rounding, and an element may be off by half a step
// of e4m3. References are in f64, where the elements are not rounded.
#pragma once

#include <string>
#include <vector>

#include "ops/contract.h"

namespace fk {

inline constexpr double kLargestFp8 = 448;
inline constexpr double kLeastGroupSize = 1e-10;  // of the largest element, as vLLM has it

// q [T, width] in FP8, or f64 for references, and scales f32 [T, groups]. group_size 0: one group is a whole row.
std::array<TensorSpec, 2> fp8_group_specs(int64_t tokens, int64_t width, int64_t group_size, DType given);
// Throws Error where groups do not divide the width.
int64_t fp8_groups(int64_t width, int64_t group_size);
// The workload with the nearest width that groups divide.
Workload with_whole_groups(Workload workload, int64_t group_size);
// Row t of both, for oracles.
void store_fp8_groups(const std::vector<double>& row, int64_t group_size, const View& q, const View& scales, int64_t t);
// Empty if the call's outputs are right; `error`: of an element before it is rounded, as a part of its size.
std::string judge_fp8_groups(const View& q, const View& scales, const View& reference_q, const View& reference_scales,
                             double error);

}  // namespace fk
