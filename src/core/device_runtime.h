// DeviceRuntime: the interface to a device other than the CPU: memory, copies, streams, graphs, timing.
//
// A backend registers its runtime before main; no other code depends on the library of the device. All work of a
// runtime goes to one stream, in order. Every function throws Error if the device fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/tensor.h"

namespace fk {

// Properties of a device, as reported by its driver.
struct DeviceFacts {
  std::string name;
  std::string architecture;  // "sm_90"
  std::string driver;        // versions: of the driver, and of the library this program was built with
  std::string library;
  int multiprocessors = 0;
  uint64_t memory_bytes = 0;
  uint64_t l2_bytes = 0;
  int clock_mhz = 0;  // the highest
};

// Measured speeds of a device.
struct DeviceSpeeds {
  double read_gbps = 0;           // 10^9 bytes a second, reading only
  double write_gbps = 0;          // writing only
  double copy_gbps = 0;           // reading and writing, both counted
  double bf16_tflops = 0;         // matrix products, 10^12 operations a second
  double f32_tflops = 0;          // multiply-adds outside tensor cores
  double launch_us = 0;           // from one kernel's start to the next, launched one by one
  double recorded_launch_us = 0;  // the same inside a graph
};

// A graph: work that was recorded once and can be replayed on the same memory.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  virtual void launch() = 0;  // in stream order
};

// A moment on the device's clock.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  virtual void record() = 0;                                      // in stream order
  virtual void wait() = 0;                                        // until the last recorded event is reached
  virtual double elapsed_ms_since(const DeviceEvent& start) = 0;  // waits for both
};

class DeviceJudging;  // core/device_judging.h

class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;

  virtual Device device() const = 0;
  virtual const DeviceFacts& facts() const = 0;
  virtual DeviceSpeeds measure() = 0;  // takes about a second and a few GiB

  virtual size_t free_bytes() = 0;
  virtual void* allocate(size_t size_bytes) = 0;  // throws Error with the sizes if memory is exhausted
  virtual void release(void* address) noexcept = 0;
  // Pinned host memory.
  virtual void* allocate_host(size_t size_bytes) = 0;
  virtual void release_host(void* address) noexcept = 0;

  // In stream order. The source of an upload may be changed again when the call returns, unless it is allocate_host's.
  virtual void upload(void* to_device, const void* from, size_t size_bytes) = 0;
  virtual void download(void* to, const void* from_device, size_t size_bytes) = 0;  // waits for it
  // Does not wait for it; `to` is allocate_host's.
  virtual void download_later(void* to, const void* from_device, size_t size_bytes) = 0;
  virtual void copy(void* to_device, const void* from_device, size_t size_bytes) = 0;
  virtual void fill(void* to_device, std::byte value, size_t size_bytes) = 0;
  // Elements first, first + 1, ... of a dummy tensor; the formula is in models/dummy_weights.h.
  virtual void fill_dummy(const View& to, uint64_t key, float offset, float scale, int64_t first) = 0;

  // Whether a contiguous tensor of floats has no NaN and no infinity. Nothing: the device cannot say.
  virtual std::optional<bool> all_finite(const View&) { return std::nullopt; }

  virtual void synchronize() = 0;  // throws Error when any work before it failed
  virtual void* stream() = 0;      // the native handle of the library, for kernels

  // Between the two calls work is recorded instead of run.
  virtual void begin_recording() = 0;
  virtual std::unique_ptr<RecordedWork> end_recording() = 0;
  virtual void abandon_recording() noexcept = 0;
  virtual int64_t recordings() const = 0;  // how many have ended so far

  // Chooses between kernels that compute the same by timing this work with each of them (core/tuned_choice.h). The work
  // is recorded and run many times; running it twice must give the same result as once.
  virtual void tune(const std::function<void()>& /*work*/) {}

  virtual std::unique_ptr<DeviceEvent> make_event() = 0;

  // The functions for the judge, on the same stream. Throws Error if the backend has none.
  virtual DeviceJudging& judging();
};

// The runtime of a device that is not the CPU. Throws Error that says why there is none and what to do.
DeviceRuntime& device_runtime(Device device);
// Empty when device_runtime(device) would work.
std::string device_missing(Device device);
// How many devices of the kind there are; 0 where this build has no backend for it.
int device_count(DeviceKind kind);

// What a backend registers: opens device `index`, counts devices, or says why it cannot.
struct DeviceDriver {
  int (*count)() = nullptr;
  std::string (*unavailable)(int index) = nullptr;  // empty when the device can be opened
  std::unique_ptr<DeviceRuntime> (*open)(int index) = nullptr;
};
bool register_device_driver(DeviceKind kind, const DeviceDriver& driver);

// Copies between any two places, waiting until the bytes have arrived. Both views are contiguous, of one spec.
void copy_between(const View& from, const View& to);

}  // namespace fk
