// DeviceCalls: makes a runner's calls on a GPU: queued behind a kernel that waits, timed by the device, fingerprinted
// in stream order.
//
// Inputs are masked until the stream reaches the calls, so work started earlier on another stream reads only masked
// data. Outputs are fingerprinted directly after the calls, and by the judge again when the whole device is idle, so
// work that continues on another stream is detected.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/device_judging.h"
#include "core/device_runtime.h"
#include "sandbox/runner_process.h"

namespace fk {

struct DeviceCall {
  std::vector<DeviceRange> inputs;   // masked until the call
  std::vector<DeviceRange> written;  // in the order of CallMemory::fingerprints
  std::function<void()> forward;
};

struct DeviceTimes {
  int64_t ns = 0;  // of all calls together, by the device's events
  std::vector<uint64_t> at_stop;
  double clock_mhz = 0;
  bool held = false;
  bool kept_l2 = false;  // a call kept part of the L2 cache reserved
};

class DeviceCalls {
 public:
  explicit DeviceCalls(Device device);

  // Queues the calls; none of them runs before go(), unless a call itself waits for the device.
  void queue(std::vector<DeviceCall> calls, const RunMode& mode);
  // Runs them and waits until the device has finished all work of this process.
  void go();
  // Times of the last run.
  DeviceTimes times();
  // Drops the queued calls after an exception.
  void abandon();

 private:
  void make_calls();
  void record(size_t i);

  DeviceRuntime& runtime_;
  DeviceJudging& judging_;
  std::vector<std::unique_ptr<DeviceEvent>> events_;  // start and stop events, alternating
  size_t timed_ = 0;                                  // number of pairs in use
  std::vector<DeviceCall> calls_;
  RunMode mode_;
  size_t l2_before_ = 0;
  std::unique_ptr<StreamHold> hold_;
  std::unique_ptr<PendingFingerprints> at_stop_;
};

}  // namespace fk
