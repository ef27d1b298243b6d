// The time a piece of work cannot go below on this machine, and how near a measured time comes to it.
#pragma once

#include "core/dtype.h"
#include "measure/machine_probe.h"

namespace fk {

struct Speeds {
  double read = 0;     // bytes a second
  double compute = 0;  // operations a second
};

// Matrix units that know bf16 only multiply f32 as three parts of 8 bits each; six of their nine products count.
inline constexpr double kBf16ProductsOfF32 = 6;

// For arithmetic in `dtype`: bf16 has its own speed, everything else runs in f32, on whichever unit is faster at it.
Speeds best_speeds(const MachineProbe& probe, DType dtype);
// What the machine gave most of the time: for work timed right beside the probe.
Speeds median_speeds(const MachineProbe& probe, DType dtype);

// Reading and computing overlap at best, so the slower of the two bounds the whole.
double floor_s(double bytes, double flops, const Speeds& speeds);

// floor / time, both in one unit: 1 is the limit; above 1 the time (or the count of bytes and operations) is wrong.
// Throws Error for a time that is not positive.
double floor_share(double floor, double time);

}  // namespace fk
