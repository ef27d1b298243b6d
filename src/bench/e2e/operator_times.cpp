#include "bench/e2e/operator_times.h"

#include <algorithm>

#include "core/check.h"
#include "measure/timer.h"
#include "ops/registry.h"

namespace fk {

// Events of the calls of one pass. They are read when the pass has ended, since reading waits for the device.
struct OperatorTimes::DeviceSpans {
  explicit DeviceSpans(Device device) : runtime(device_runtime(device)) {}

  DeviceEvent& next() {
    if (used == events.size()) events.push_back(runtime.make_event());
    events[used]->record();
    return *events[used++];
  }

  struct Call {
    DeviceEvent* begin = nullptr;
    DeviceEvent* end = nullptr;
    int parent = -1;
    std::pair<std::string, std::string> name;
  };

  DeviceRuntime& runtime;
  std::vector<std::unique_ptr<DeviceEvent>> events;
  size_t used = 0;
  std::vector<Call> calls;
  std::vector<int> open;
};

OperatorTimes::OperatorTimes(Device device, size_t calls_kept) : calls_kept_(calls_kept) {
  if (device.kind != DeviceKind::kCpu) device_ = std::make_unique<DeviceSpans>(device);
}
OperatorTimes::~OperatorTimes() = default;

void OperatorTimes::Total::add(double duration_ms, double inner_ms) {
  ++calls;
  own_ms += std::max(0.0, duration_ms - inner_ms);
  inclusive_ms += duration_ms;
}

bool OperatorTimes::before_call(const Node& node, const Context&, std::span<const OptView>) {
  if (open_.empty() && !in_pass_) is_pass_ = node.info().level > 1;
  begin(node.info().name, node.path());
  return true;
}

void OperatorTimes::after_call(const Node& node, std::string_view implementation) {
  end(node.info().name, implementation);
}

void OperatorTimes::before_region(std::string_view name, std::string_view path, std::span<const View>,
                                  std::span<const View>) {
  region_ = name;
  begin(name, path);
}

void OperatorTimes::after_region() { end(region_, "generated"); }

void OperatorTimes::after_pass() {
  in_pass_ = false;
  end_step();
}

void OperatorTimes::begin(std::string_view op, std::string_view path) {
  Open open;
  open.span = spans_.size();
  if (device_ != nullptr) {
    DeviceSpans::Call call;
    call.parent = device_->open.empty() ? -1 : device_->open.back();
    call.begin = &device_->next();
    device_->open.push_back(static_cast<int>(device_->calls.size()));
    device_->calls.push_back(std::move(call));
  }
  // Beyond the limit a call is timed, but not drawn.
  if (spans_.size() < calls_kept_)
    spans_.push_back({std::string(op), "", std::string(path), static_cast<int>(open_.size()), 0, 0});
  open.start_ns = now_ns();
  if (open.span == 0) step_start_ns_ = open.start_ns;
  open_.push_back(open);
}

void OperatorTimes::end(std::string_view op, std::string_view implementation) {
  int64_t end_ns = now_ns();
  FK_CHECK(!open_.empty());
  Open open = open_.back();
  open_.pop_back();
  if (open.span < spans_.size()) spans_[open.span].implementation = implementation;
  std::pair<std::string, std::string> name(op, implementation);
  if (device_ != nullptr) {
    DeviceSpans::Call& call = device_->calls[static_cast<size_t>(device_->open.back())];
    device_->open.pop_back();
    call.end = &device_->next();
    call.name = std::move(name);
  } else {
    double duration_ms = static_cast<double>(end_ns - open.start_ns) / kNsPerMs;
    totals_[std::move(name)].add(duration_ms, open.inner_ms);
    if (!open_.empty()) open_.back().inner_ms += duration_ms;
    if (open.span < spans_.size()) {
      spans_[open.span].start_ms = static_cast<double>(open.start_ns - step_start_ns_) / kNsPerMs;
      spans_[open.span].duration_ms = duration_ms;
    }
  }
  if (open_.empty() && !in_pass_) end_step();
}

void OperatorTimes::end_step() {
  if (device_ != nullptr) {
    std::vector<double> inner(device_->calls.size(), 0.0);
    // Parts come after their composition, so that backwards every inner time is complete when it is used.
    for (size_t i = device_->calls.size(); i-- > 0;) {
      DeviceSpans::Call& call = device_->calls[i];
      double duration_ms = call.end->elapsed_ms_since(*call.begin);
      totals_[call.name].add(duration_ms, inner[i]);
      if (call.parent >= 0) inner[static_cast<size_t>(call.parent)] += duration_ms;
      if (i >= spans_.size()) continue;
      spans_[i].start_ms = call.begin->elapsed_ms_since(*device_->calls[0].begin);
      spans_[i].duration_ms = duration_ms;
    }
    device_->calls.clear();
    device_->used = 0;
  }
  std::vector<CallSpan> spans = std::exchange(spans_, {});
  if (!is_pass_) return;  // what draws tokens is timed, and is no pass
  ++steps_;
  step_ = std::move(spans);
}

double OperatorTimes::total_ms() const {
  double sum = 0;
  for (const auto& [name, total] : totals_) sum += total.own_ms;
  return sum;
}

std::vector<OperatorShare> OperatorTimes::shares() const {
  double total = total_ms();
  std::vector<OperatorShare> list;
  for (const auto& [name, t] : totals_)
    list.push_back({name.first, name.second, t.calls, t.own_ms, t.inclusive_ms, total > 0 ? t.own_ms / total : 0});
  std::stable_sort(list.begin(), list.end(),
                   [](const OperatorShare& a, const OperatorShare& b) { return a.own_ms > b.own_ms; });
  return list;
}

double expected_speedup(double share, double kernel_speedup) { return 1 / (1 - share + share / kernel_speedup); }

}  // namespace fk
