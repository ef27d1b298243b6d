#include "bench/kernels/confirm.h"

#include <algorithm>

namespace fk {
namespace {

bool ranked(const KernelResult& r) {
  return r.passed() && r.timing && !r.timing->failure && r.timing->paired.invalid.empty() &&
         r.timing->paired.candidate.count > 0;
}

// Why the second measurement does not confirm the first.
std::string objection(const KernelResult& again, double best) {
  if (!again.passed()) return again.sentence;
  if (!ranked(again)) return again.timing ? again.timing->paired.invalid : "It was not timed again.";
  Interval interval = again.timing->paired.speedup_interval();
  return fmt::format("Measured again it is {:.3f}x ({:.3f} .. {:.3f}), which is not beyond {:.3f}x.",
                     again.timing->paired.speedup(), interval.low, interval.high, best);
}

}  // namespace

bool beats(const KernelResult& result, double best) {
  return ranked(result) && result.timing->paired.verdict == SpeedVerdict::kFaster &&
         result.timing->paired.speedup_interval().low > best;
}

KernelResult measure_and_confirm(const std::function<KernelResult(const KernelOptions&)>& measure,
                                 const KernelOptions& options, double best, const std::function<bool()>& stop) {
  KernelResult first = measure(options);
  if (!beats(first, best)) return first;
  first.confirmation = Confirmation{.best_before = best};
  Confirmation& c = *first.confirmation;
  if (stop()) {
    c.sentence = "It was interrupted before it could be measured again.";
    return first;
  }
  KernelOptions fresh = options;
  fresh.seed.reset();
  fresh.other_cache_state = false;
  fresh.timeout_s = std::max(1.0, options.timeout_s - first.seconds);
  KernelResult again = measure(fresh);
  again.seconds += first.seconds;
  bool says_nothing = again.verdict == Verdict::kRefused || again.verdict == Verdict::kInvalidTask;
  if (!again.passed() && !says_nothing) return again;
  first.seconds = again.seconds;
  c.seed = again.judgement.seed;
  c.confirmed = beats(again, best);
  if (!c.confirmed) c.sentence = objection(again, best);
  if (ranked(again)) {
    c.speedup = again.timing->paired.speedup();
    c.interval = again.timing->paired.speedup_interval();
  }
  return first;
}

}  // namespace fk
