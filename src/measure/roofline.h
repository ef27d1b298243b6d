// The least possible time of some work on this machine, and how near a measured time comes to it.
#pragma once

#include "core/dtype.h"
#include "measure/machine_probe.h"

namespace fk {

struct Speeds {
  double read = 0;     // bytes per second
  double compute = 0;  // operations per second
};

// Matrix units that support only bf16 multiply f32 as three parts of 8 bits each; six of the nine products matter.
inline constexpr double kBf16ProductsOfF32 = 6;

// For arithmetic in `dtype`: bf16 has its own speed, everything else runs in f32, on whichever unit is faster.
Speeds best_speeds(const MachineProbe& probe, DType dtype);
// The typical speeds instead of the best: for work timed at the same moment as the probe.
Speeds median_speeds(const MachineProbe& probe, DType dtype);

// Reading and computing overlap at best, so the slower of the two is the limit.
double floor_s(double bytes, double flops, const Speeds& speeds);

// floor / time, both in one unit: 1 is the limit; above 1 the time (or the count of bytes and operations) is wrong.
// Throws Error for a time that is not positive.
double floor_share(double floor, double time);

}  // namespace fk
