#include "bench/kernels/launch_sides.h"

#include <fmt/format.h>

#include <optional>

#include "measure/priority.h"

namespace fk {

LaunchSides::LaunchSides(const RunnerOptions& options, const Libraries& libraries, const std::array<int, kAll>& order,
                         bool timed, uint64_t seed) {
  std::optional<AheadOfOthers> inherited;  // by all sides
  if (timed && options.device == kCpu) inherited.emplace();
  const uint64_t layout = secret_number();  // the same for all sides, another one in every launch
  for (int side : order) {
    // On a GPU events measure the calls alone, so there is no overhead to subtract and no process for empty samples.
    if (side > kCandidate && (!timed || (side == kEmpty && options.device != kCpu))) continue;
    RunnerOptions own = options;
    own.layout = layout;
    own.library = side == kCandidate ? libraries.candidate : side == kEmpty ? "" : libraries.baseline;
    own.empty = side == kEmpty;
    if (side != kCandidate) own.output = nullptr;
    sides_[static_cast<size_t>(side)] = std::make_unique<ProcessSubject>(own, seed);
  }
}

std::optional<Failure> LaunchSides::failure(int side) {
  const std::optional<Failure>& f = process(side).failure();
  if (!f || side == kCandidate) return f;
  return Failure{Verdict::kInvalidTask, fmt::format("The baseline failed: {}", f->sentence)};
}

std::optional<Failure> LaunchSides::finish() {
  for (const auto& side : sides_)
    if (side) side->process().begin_finish();
  std::optional<Failure> found;
  for (int side = 0; side < kAll && !found; ++side) {
    if (!takes_part(side)) continue;
    process(side).finish();
    found = failure(side);
  }
  return found;
}

std::optional<Failure> LaunchSides::Together::refusal(const CallData& shapes) {
  std::optional<Failure> refused;
  for (int side = 0; side < kAll && !refused; ++side)
    if (side != kCandidate && sides_.takes_part(side)) refused = sides_[side].refusal(shapes);
  return refused;
}

std::optional<Failure> LaunchSides::Together::bind(std::span<const Tensor> params) {
  std::optional<Failure> failure;
  for (int side = 0; side < kAll && !failure; ++side)
    if (side != kCandidate && sides_.takes_part(side)) failure = sides_[side].bind(params);
  return failure;
}

CallOutcome LaunchSides::Together::call(const CallData& data, Placement placement) {
  for (int side : {kControl, kEmpty})
    if (sides_.takes_part(side)) sides_[side].call(data, placement);
  return sides_[kBaseline].call(data, placement);
}

}  // namespace fk
