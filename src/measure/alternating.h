// Compares two sides whose times come from alternating processes: without, with, without, with, without.
//
// Each process of the side "with" is compared with the two around it, so that a slow drift of the machine's speed
// cancels out. Two neighbours without are the control: the difference of that side to itself.
#pragma once

#include <cstdint>
#include <vector>

#include "measure/paired.h"

namespace fk {

// Times of one process, in ms, by iteration. The same iteration has the same work in every process.
using ProcessTimes = std::vector<double>;

// `without` has one process more than `with`: before, between and after them.
PairedResult compare_alternating(const std::vector<ProcessTimes>& without, const std::vector<ProcessTimes>& with,
                                 uint64_t seed = 0);

}  // namespace fk
