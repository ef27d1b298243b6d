// The time a piece of work cannot go below on this machine, and how near a measured time comes to it.
#pragma once

#include "core/dtype.h"
#include "measure/machine_probe.h"

namespace fk {

// Measured ceiling of arithmetic in `dtype`, in operations a second. bf16 has its own; everything else runs in f32.
double peak_flops(const MachineProbe& probe, DType dtype);

double memory_floor_ns(double bytes, const MachineProbe& probe);
double compute_floor_ns(double flops, DType dtype, const MachineProbe& probe);

// Reading and computing overlap at best, so the slower of the two bounds the whole.
double floor_ns(double bytes, double flops, DType dtype, const MachineProbe& probe);

// floor / time: 1 is the limit; above 1 the time (or the count of bytes and operations) is wrong. Throws Error for a
// time that is not positive.
double floor_share(double floor_time_ns, double time_ns);

}  // namespace fk
