// DeviceCalls: how a runner makes calls on a GPU: queued behind a kernel that waits, timed by the device, fingerprinted
// in stream order.
//
// Inputs are masked until the stream gets to the calls, so work that was begun elsewhere before finds nothing; what is
// written is fingerprinted right behind the calls, so work that goes on elsewhere after them is seen by the judge, who
// takes fingerprints again when the whole device is quiet.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "candidate/runner/runner_process.h"
#include "core/device_judging.h"
#include "core/device_runtime.h"

namespace fk {

struct DeviceCall {
  std::vector<DeviceRange> inputs;   // masked until now
  std::vector<DeviceRange> written;  // in the order CallMemory::fingerprints has them
  std::function<void()> forward;
};

struct DeviceTimes {
  int64_t ns = 0;  // all calls together, by the device's events
  std::vector<uint64_t> at_stop;
  double clock_mhz = 0;
  bool held = false;
  bool kept_l2 = false;  // a call left part of the L2 cache set aside
};

class DeviceCalls {
 public:
  explicit DeviceCalls(Device device);

  // Queues the calls; nothing of them runs before go(), unless something in them waits for the device.
  void queue(std::vector<DeviceCall> calls, const RunMode& mode);
  // Lets them run and waits for everything this process does on the device.
  void go();
  // Of what ran last.
  DeviceTimes times();
  // Drops what is queued, after an exception on the way.
  void abandon();

 private:
  void make_calls();
  void record(size_t i);

  DeviceRuntime& runtime_;
  DeviceJudging& judging_;
  std::vector<std::unique_ptr<DeviceEvent>> events_;  // start and stop, in turn
  size_t timed_ = 0;                                  // pairs of them in use
  std::vector<DeviceCall> calls_;
  RunMode mode_;
  size_t l2_before_ = 0;
  std::unique_ptr<StreamHold> hold_;
  std::unique_ptr<PendingFingerprints> at_stop_;
};

}  // namespace fk
