#include "compiler/plan/plan_frame.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "compiler/plan/host_copy.h"
#include "core/device_runtime.h"

namespace fk {

Shape shape_at(const std::vector<SymbolicSize>& shape, const BatchSizes& sizes) {
  std::array<int64_t, kMaxRank> extents{};
  for (size_t i = 0; i < shape.size(); ++i) extents[i] = shape[i].at(sizes);
  return Shape(std::span(extents.data(), shape.size()));
}

void PlanExecutor::Frame::take_steps(const PlanLayout& from, const std::vector<View>& all,
                                     const std::vector<Node*>& nodes, const std::vector<PlannedRegion>& regions) {
  steps.clear();
  args.clear();
  views.clear();
  for (const PlanStep& s : from.steps) {
    FrameStep step{.kind = s.kind, .index = s.index, .count = s.places.size()};
    if (s.kind == PlanStep::Kind::kCall) {
      step.node = nodes[s.index];
      step.first = args.size();
      for (int place : s.places) args.push_back(place < 0 ? OptView() : OptView(all[static_cast<size_t>(place)]));
    } else {
      // An output that the caller does not want.
      if (s.kind == PlanStep::Kind::kCopy && all[static_cast<size_t>(s.places[1])].data() == nullptr) continue;
      if (s.kind == PlanStep::Kind::kRegion) step.inputs = regions[s.index].region.inputs.size();
      step.first = views.size();
      for (int place : s.places) views.push_back(all[static_cast<size_t>(place)]);
    }
    steps.push_back(step);
  }
}

void copy_array(const View& from, const View& given) {
  const View to = given.shape() == from.shape() ? given : given.reshape(from.shape());
  if (from.numel() == 0) return;
  const size_t element = dtype_size(from.dtype());
  // The innermost dimensions that have no gaps in both are copied at once.
  int outer = from.rank();
  int64_t run = 1;
  while (outer > 0 && (from.size(outer - 1) == 1 || (from.stride(outer - 1) == run && to.stride(outer - 1) == run))) {
    run *= from.size(outer - 1);
    --outer;
  }
  std::array<int64_t, kMaxRank> index{};
  const std::span<const int64_t> at(index.data(), static_cast<size_t>(from.rank()));
  DeviceRuntime* runtime = from.device() == kCpu ? nullptr : &device_runtime(from.device());
  for (;;) {
    if (runtime == nullptr)
      std::memcpy(to.at(at), from.at(at), static_cast<size_t>(run) * element);
    else
      runtime->copy(to.at(at), from.at(at), static_cast<size_t>(run) * element);
    int d = outer - 1;
    for (; d >= 0 && ++index[static_cast<size_t>(d)] == from.size(d); --d) index[static_cast<size_t>(d)] = 0;
    if (d < 0) return;
  }
}

std::optional<std::string> first_not_finite(const View& given, bool minus_inf_allowed) {
  if (!dtype_is_float(given.dtype()) || given.numel() == 0) return std::nullopt;
  Tensor copy;  // of an array of a device
  if (given.device() != kCpu) copy = host_copy(given);
  const View& view = given.device() == kCpu ? given : copy.view();
  std::array<int64_t, kMaxRank> index{};
  const std::span<const int64_t> at(index.data(), static_cast<size_t>(view.rank()));
  for (;;) {
    const double x = load_element(view.at(at), view.dtype());
    if (!std::isfinite(x) && !(minus_inf_allowed && x < 0))
      return fmt::format("{} at {}", std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf", Shape(at).str());
    int d = view.rank() - 1;
    for (; d >= 0 && ++index[static_cast<size_t>(d)] == view.size(d); --d) index[static_cast<size_t>(d)] = 0;
    if (d < 0) return std::nullopt;
  }
}

}  // namespace fk
