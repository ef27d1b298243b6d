#include "bench/e2e/arrivals.h"

#include <cmath>

#include "core/error.h"
#include "core/rng.h"

namespace fk {
namespace {

class GammaDraws {
 public:
  explicit GammaDraws(uint64_t seed) : uniforms_(seed, "arrivals"), normals_(seed, "arrivals, normal") {}

  // Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); mean `shape`.
  double next(double shape) {
    if (shape < 1) return next(shape + 1) * std::pow(uniform(), 1 / shape);
    const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    for (;;) {
      double x = normals_.normal(at_normal_++), v = 1 + c * x;
      if (v <= 0) continue;
      v = v * v * v;
      if (std::log(uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
    }
  }

 private:
  double uniform() { return uniforms_.uniform(at_uniform_++); }

  Stream uniforms_, normals_;
  uint64_t at_uniform_ = 0, at_normal_ = 0;
};

double rate_of(const ArrivalOptions& o, int64_t request, int64_t requests) {
  if (o.ramp_up.empty()) return o.request_rate;
  double progress = static_cast<double>(request) / static_cast<double>(std::max<int64_t>(requests - 1, 1));
  if (o.ramp_up == "linear") return o.start_rps + (o.end_rps - o.start_rps) * progress;
  return o.start_rps * std::pow(o.end_rps / o.start_rps, progress);
}

}  // namespace

std::vector<double> arrival_times(const ArrivalOptions& o, int64_t requests) {
  if (!(o.burstiness > 0) || !std::isfinite(o.burstiness))
    throw UsageError("--burstiness must be above 0, not {}.", o.burstiness);
  if (!o.ramp_up.empty() && !(o.start_rps > 0 && o.end_rps > 0))
    throw UsageError("--ramp-up-strategy needs --ramp-up-start-rps and --ramp-up-end-rps above 0.");
  std::vector<double> times(static_cast<size_t>(requests), 0.0);
  if (o.ramp_up.empty() && o.request_rate == 0) return times;
  GammaDraws draws(o.seed);
  double now = 0, wanted = 0;
  for (int64_t i = 0; i < requests; ++i) {
    double mean = 1 / rate_of(o, i, requests);
    now += mean * draws.next(o.burstiness) / o.burstiness;
    wanted += mean;
    times[static_cast<size_t>(i)] = now;
  }
  if (now > 0)
    for (double& time : times) time *= wanted / now;
  return times;
}

}  // namespace fk
