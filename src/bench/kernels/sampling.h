// How many pairs a timing measures, and when it goes on because the result is not known well enough.
#pragma once

#include <cstdint>

#include "bench/kernels/pair_timer.h"

namespace fk {

// Factor on the time and the pairs for more sampling. Long calls use more of the caches and of the memory bandwidth
// that other programs use too, so they need more; a hundred calls of a microsecond do not.
int patience(double call_ns);

// At least the launch's share of the requested pairs, plus a secret number of pairs, derived from `secret`.
int pairs_of_a_launch(int pairs, int launch, int launches, double call_ns, uint64_t secret);

// Whether the interval is wider than the smallest change it must detect, and than a tenth of the measured change. Only
// the width decides, not the verdict: a test repeated until it succeeds succeeds too often.
bool wants_more_pairs(const TimingResult& so_far, const TimingOptions& options, double call_ns);

}  // namespace fk
