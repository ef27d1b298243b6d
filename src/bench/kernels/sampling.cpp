#include "bench/kernels/sampling.h"

#include <algorithm>
#include <cmath>

#include "measure/paired.h"

namespace fk {

namespace {

// Long calls use more of the caches and of the memory bandwidth that other programs use too, so they need more pairs; a
// hundred calls of a microsecond do not.
// Factor on the time and the pairs for more sampling.
int patience(double call_ns) { return call_ns > 100e3 ? 4 : 1; }

// Whether the interval is wider than the smallest change it must detect, and than a tenth of the measured change. Only
// the width decides, not the verdict: a test repeated until it succeeds succeeds too often.
bool wants_more_pairs(const TimingResult& so_far, const TimingOptions& options, double call_ns) {
  const size_t most = size_t{4} * static_cast<size_t>(patience(call_ns));  // times the requested pairs
  PairedOptions o;
  o.seed = options.seed;
  PairedResult now = compare_paired(so_far.samples, so_far.control, o);
  double target = std::max(std::log1p(o.least_delta), std::abs(now.log_ratio) / 10);
  return needs_more(now, target, most * static_cast<size_t>(options.pairs));
}

}  // namespace

bool LaunchTime::ends_launch(int launches, int pairs, double timed_s) const {
  return is_limited() && pairs >= kLeastPairs && 1.25 * timed_s > aim_s_ / launches - kLaunchS;
}

bool LaunchTime::too_late(int more, int made, double timed_s) const {
  const double factor = busy_ ? 3 : 1.25;
  return is_limited() && made > 0 && (timed_s / made + kLaunchS) * (made + more) > factor * aim_s_;
}

LaunchPlan::LaunchPlan(const TimingOptions& options)
    : options_(options),
      time_(options.device == kCpu ? options.aim_s : 0),
      launches_(std::max(1, std::min(options.launches, options.pairs))) {}

bool LaunchPlan::another_launch(const TimingResult& so_far, double call_ns) {
  ++launch_;
  earlier_s_ += launch_s();
  rounds_s_ = 0;
  if (launch_ == launches_) asked_s_ = watch_.elapsed_s();
  return launch_ < launches_ || may_go_on(so_far, call_ns);
}

bool LaunchPlan::may_go_on(const TimingResult& so_far, double call_ns) const {
  if (watch_.elapsed_s() > options_.budget_s) return false;
  if ((launch_ - launches_) % LaunchSides::kTimed != 0) return true;  // until every side has used every memory
  return watch_.elapsed_s() - asked_s_ < patience(call_ns) * options_.sample_on_s &&
         !time_.too_late(LaunchSides::kTimed, launch_, earlier_s_) && wants_more_pairs(so_far, options_, call_ns);
}

void LaunchPlan::begin_pairs(uint64_t secret) {
  pair_ = -1;
  const int share = options_.pairs / launches_ + (launch_ % launches_ < options_.pairs % launches_ ? 1 : 0);
  pairs_ = fitting_ > 0 ? fitting_ : time_.is_limited() ? LaunchTime::kTimesTheShare * share : share;
  pairs_ += static_cast<int>(secret % static_cast<uint64_t>(pairs_ / 2 + 1));
}

bool LaunchPlan::another_pair() {
  ++pair_;
  if (pair_ >= pairs_) return false;
  if (launch_ == 0 && time_.ends_launch(launches_, pair_ + 1, launch_s())) pairs_ = fitting_ = pair_ + 1;
  if (launch_ > 0 && watch_.elapsed_s() > options_.budget_s) pairs_ = pair_ + 1;
  return true;
}

void LaunchPlan::add_round(double round_s) { rounds_s_ += round_s; }

// A mean of the rounds so far, so that a single slow one does not count several times.
double LaunchPlan::launch_s() const {
  return pair_ <= 0 ? 0 : rounds_s_ * (1 + static_cast<double>(LaunchTime::kUntimedRounds) / pair_);
}

double LaunchPlan::done() const { return std::min(1.0, (launch_ + (pair_ + 1.0) / pairs_) / launches_); }

}  // namespace fk
