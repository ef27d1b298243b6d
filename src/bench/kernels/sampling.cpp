#include "bench/kernels/sampling.h"

#include <algorithm>
#include <cmath>

#include "measure/paired.h"

namespace fk {

int patience(double call_ns) { return call_ns > 100e3 ? 4 : 1; }

int pairs_of_a_launch(int pairs, int launch, int launches, double call_ns, uint64_t secret) {
  int share = pairs / launches + (launch % launches < pairs % launches ? 1 : 0);
  if (launch >= launches) share *= patience(call_ns);  // there have been enough launches by then
  return share + static_cast<int>(secret % static_cast<uint64_t>(share / 2 + 1));
}

bool wants_more_pairs(const TimingResult& so_far, const TimingOptions& options, double call_ns) {
  const size_t most = size_t{4} * static_cast<size_t>(patience(call_ns));  // times the requested pairs
  PairedOptions o;
  o.seed = options.seed;
  PairedResult now = compare_paired(so_far.samples, so_far.control, o);
  double target = std::max(std::log1p(o.least_delta), std::abs(now.log_ratio) / 10);
  return needs_more(now, target, most * static_cast<size_t>(options.pairs));
}

}  // namespace fk
