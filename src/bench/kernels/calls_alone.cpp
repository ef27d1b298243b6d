#include "bench/kernels/calls_alone.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/rng.h"
#include "measure/statistics.h"

namespace fk {
namespace {
constexpr size_t kBaseline = 0, kCandidate = 1, kControl = 2;

// Twice the standard error of a median, estimated from the median deviation.
double median_error(const std::vector<double>& values) {
  if (values.empty()) return 0;
  const double middle = median(values);
  std::vector<double> off;
  for (double v : values) off.push_back(std::abs(v - middle));
  return 2 * 1.25 * 1.48 * median(off) / std::sqrt(static_cast<double>(values.size()));
}

PairedSamples charged(PairedSamples samples, double ns) {
  for (std::vector<TimePair>& launch : samples)
    for (TimePair& pair : launch) pair.candidate_ns += ns;
  return samples;
}

}  // namespace

bool CallsAlone::empty() const {
  return std::all_of(launches_.begin(), launches_.end(), [](const Launch& launch) { return launch.calls.empty(); });
}

CallsAlone::OfSides CallsAlone::alone_ns() const {
  OfSides of_sides{};
  for (size_t side = 0; side < kSides && !empty(); ++side) {
    std::vector<double> values;
    for (const Launch& launch : launches_)
      for (const OfSides& call : launch.calls)
        values.push_back(call[side] - (launch.empty.empty() ? 0 : median(launch.empty)));
    of_sides[side] = median(values);
  }
  return of_sides;
}

double CallsAlone::median_of(size_t side) const {
  std::vector<double> values;
  for (const Launch& launch : launches_)
    for (const OfSides& call : launch.calls) values.push_back(call[side]);
  return median(values);
}

std::vector<double> CallsAlone::gains(const Launch& launch) {
  std::vector<double> all;
  for (const OfSides& call : launch.calls) all.push_back((call[kBaseline] + call[kControl]) / 2 - call[kCandidate]);
  return all;
}

// The delay of a wake-up differs from sample to sample, so the median of each side varies less than that of the
// differences.
double CallsAlone::gain_ns() const {
  return empty() ? 0 : (median_of(kBaseline) + median_of(kControl)) / 2 - median_of(kCandidate);
}

// Addresses are chosen once per launch, so launches may differ by more than calls do.
double CallsAlone::error_ns() const {
  std::vector<double> of_launches, of_calls;
  for (const Launch& launch : launches_) {
    if (launch.calls.empty()) continue;
    std::vector<double> of_launch = gains(launch);
    of_launches.push_back(median(of_launch));
    of_calls.insert(of_calls.end(), of_launch.begin(), of_launch.end());
  }
  return std::max(median_error(of_launches), median_error(of_calls));
}

bool CallsAlone::wants_more(std::span<const std::vector<TimePair>> launches) const {
  std::vector<double> baseline, candidate;
  for (const auto& launch : launches)
    for (const TimePair& pair : launch)
      if (pair.dropped == Dropped::kNo) baseline.push_back(pair.baseline_ns), candidate.push_back(pair.candidate_ns);
  if (empty() || baseline.empty()) return false;
  const double time = median(baseline), gain = time - median(candidate);
  return gain > 0.01 * time && error_ns() > gain / 8;
}

void CallsAlone::limit(PairedResult& result, const PairedSamples& samples, const PairedSamples& control,
                       PairedOptions& options) const {
  if (empty() || result.verdict != SpeedVerdict::kFaster) return;  // there is no gain to check
  const Summary of_candidate = result.candidate, of_baseline = result.baseline;
  const double gain = of_baseline.median - of_candidate.median, missing = gain - gain_ns(), error = error_ns();
  // `error` is two standard errors. If not surely something is missing, one is added: with two, honest gains of a few
  // percent would not be ranked.
  const bool only_in_batch = missing > 1.5 * error;
  // A gain alone that is larger makes up for the error. What is missing is charged to the candidate, so that it is
  // missing from the speed-up, too, but never more than the gain; the times stay as measured.
  options.could_hide_ns += only_in_batch ? error : std::max(0.0, std::min(missing, 0.0) + error / 2);
  result = compare_paired(charged(samples, std::clamp(missing, 0.0, gain)), control, options);
  result.candidate = of_candidate;
  if (result.verdict == SpeedVerdict::kFaster) return;
  result.verdict = SpeedVerdict::kUnresolved;
  const OfSides alone = alone_ns();
  const std::string times = fmt::format(
      "In a batch a call takes {:.1f} us and the baseline's {:.1f} us, alone {:.1f} and {:.1f} us",
      of_candidate.median * 1e-3, of_baseline.median * 1e-3, alone[kCandidate] * 1e-3, alone[kBaseline] * 1e-3);
  if (only_in_batch)
    result.invalid = times + ": its calls are faster only in a batch, so the time is not ranked.";
  else
    result.invalid = fmt::format(
        "{}, measured to {:.1f} us: whether its calls are faster alone too is not known, so the time is not ranked; "
        "stop other programs, or time more pairs with --num-runs.",
        times, error * 1e-3);
}

std::string CallsAlone::objection_on_gpu(double baseline_ns, double candidate_ns) const {
  if (empty()) return {};
  OfSides alone = alone_ns();
  double gain = baseline_ns - candidate_ns,
         gain_alone = std::min(alone[kBaseline], alone[kControl]) - alone[kCandidate];
  const double allowed = 1e3 + 0.1 * alone[kCandidate] + 2 * std::abs(alone[kBaseline] - alone[kControl]);
  if (gain - gain_alone <= allowed) return {};
  return fmt::format(
      "In a batch a call takes {:.1f} us and the baseline's {:.1f} us, alone {:.1f} and {:.1f} us: its calls are "
      "faster only in a batch, so the time is not ranked.",
      candidate_ns * 1e-3, baseline_ns * 1e-3, alone[kCandidate] * 1e-3, alone[kBaseline] * 1e-3);
}

void CallsAlone::limit_on_gpu(PairedResult& paired) const {
  if (paired.dropped[0] == 0 || paired.log_ratio <= 0 || !paired.invalid.empty()) return;  // there is no gain to check
  paired.invalid = objection_on_gpu(paired.baseline.median, paired.candidate.median);
  if (!paired.invalid.empty()) paired.verdict = SpeedVerdict::kUnresolved;
}

LateWrites::LateWrites(std::span<const View> written, uint64_t secret) {
  constexpr size_t kPieces = 64, kBytes = 16;
  Stream random(secret, "late writes");
  uint64_t draws = 0;
  std::vector<View> tensors;
  for (const View& v : written)
    if (v.size_bytes() > 0) tensors.push_back(v);
  if (tensors.empty()) return;
  for (size_t i = 0; i < kPieces; ++i) {
    const View& v = tensors[i % tensors.size()];
    const auto* data = static_cast<const std::byte*>(v.data());
    const size_t bytes = std::min(kBytes, v.size_bytes());
    pieces_.push_back({data + random.below(draws++, v.size_bytes() - bytes + 1), bytes});
  }
  seen_.resize(kPieces * kBytes);
}

void LateWrites::look() {
  std::byte* to = seen_.data();
  for (const Piece& p : pieces_) {
    std::memcpy(to, p.at, p.bytes);
    to += p.bytes;
  }
}

bool LateWrites::found() const {
  const std::byte* seen = seen_.data();
  for (const Piece& p : pieces_) {
    if (std::memcmp(seen, p.at, p.bytes) != 0) return true;
    seen += p.bytes;
  }
  return false;
}

}  // namespace fk
