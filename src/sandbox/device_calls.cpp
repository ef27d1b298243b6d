#include "sandbox/device_calls.h"

namespace fk {
namespace {

// Longer than queuing a whole model takes. Calls that wait for the device themselves reach this limit every time.
constexpr int64_t kHoldLimit = 20'000'000;

}  // namespace

DeviceCalls::DeviceCalls(Device device) : runtime_(device_runtime(device)), judging_(runtime_.judging()) {}

void DeviceCalls::queue(std::vector<DeviceCall> calls, const RunMode& mode) {
  abandon();
  calls_ = std::move(calls);
  mode_ = mode;
  judging_.reset_persisting_l2();
  l2_before_ = judging_.persisting_l2_bytes();
  timed_ = mode.cold ? calls_.size() : 1;
  while (events_.size() < 2 * timed_) events_.push_back(runtime_.make_event());
  if (mode.cold) judging_.flush_l2();  // allocates its memory now, since that is impossible behind a hold
  runtime_.synchronize();
  if (!mode.hold) return;
  hold_ = judging_.hold_stream(kHoldLimit);
  make_calls();
}

// All of it is queued behind the hold or starts after go(), so inputs are unmasked only while the judge's clock runs.
void DeviceCalls::make_calls() {
  std::vector<DeviceRange> inputs;
  for (const DeviceCall& call : calls_) inputs.insert(inputs.end(), call.inputs.begin(), call.inputs.end());
  judging_.mask(inputs, mode_.key);
  if (!mode_.cold) events_[0]->record();
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (mode_.cold) {
      judging_.flush_l2();
      events_[2 * i]->record();
    }
    calls_[i].forward();
    if (mode_.cold) events_[2 * i + 1]->record();
  }
  if (!mode_.cold) events_[1]->record();
  std::vector<DeviceRange> written;
  for (const DeviceCall& call : calls_) written.insert(written.end(), call.written.begin(), call.written.end());
  at_stop_ = judging_.fingerprint(written);
}

void DeviceCalls::go() {
  if (hold_)
    hold_->release();
  else
    make_calls();
  judging_.synchronize_all();
}

DeviceTimes DeviceCalls::times() {
  DeviceTimes times;
  double ms = 0;
  for (size_t i = 0; i < timed_; ++i) ms += events_[2 * i + 1]->elapsed_ms_since(*events_[2 * i]);
  times.ns = static_cast<int64_t>(ms * 1e6);
  times.at_stop = at_stop_->values();
  if (hold_) {
    times.held = hold_->held();
    times.clock_mhz = hold_->clock_mhz();
  }
  times.kept_l2 = judging_.persisting_l2_bytes() != l2_before_;
  abandon();
  return times;
}

void DeviceCalls::abandon() {
  hold_.reset();  // releases it
  at_stop_.reset();
  calls_.clear();
}

}  // namespace fk
