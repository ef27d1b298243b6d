// DeviceJudging: what a judge needs of a device beyond running work on it: memory that two processes see, fingerprints,
// held streams, cold caches.
//
// Part of a DeviceRuntime (judging()), on the same stream and in the same order. Every function throws Error where the
// device fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/pieces.h"
#include "core/tensor.h"

namespace fk {

struct DeviceRange {
  void* address = nullptr;
  size_t size_bytes = 0;
};

// Device memory that another process can open by a descriptor. Not from allocate()'s pool: nothing else lies in it.
class SharedDeviceMemory {
 public:
  virtual ~SharedDeviceMemory() = default;
  virtual void* address() const = 0;
  virtual size_t size_bytes() const = 0;
  virtual int fd() const = 0;  // of the owner's side, open as long as this lives; -1 where it was opened from one
};

// Fingerprints on their way: taken in stream order, read later.
class PendingFingerprints {
 public:
  virtual ~PendingFingerprints() = default;
  virtual std::vector<uint64_t> values() = 0;  // one per range; waits for the stream
};

// Bytes to be written on the device: copied from another place there, or all the same.
struct DeviceWrite {
  void* to = nullptr;
  const void* from = nullptr;  // null: `value` everywhere
  size_t size_bytes = 0;
  uint8_t value = 0;
  bool masked = false;  // as mask() leaves them
};

// How far two numbers a and b may be apart: relative |b| + of_scale max|b| + absolute.
struct Apart {
  double relative = 0, of_scale = 0, absolute = 0;
};

// A kernel at the head of the stream that waits for release(), so that everything behind it is queued before the first
// of it starts. It gives up by itself, since some work cannot be queued behind it.
class StreamHold {
 public:
  virtual ~StreamHold() = default;
  virtual void release() = 0;
  // After the stream has passed it: whether it held until release(), and the multiprocessors' clock while it did.
  virtual bool held() = 0;
  virtual double clock_mhz() = 0;  // zero where it was too short to tell
};

class DeviceJudging {
 public:
  virtual ~DeviceJudging() = default;

  // Rounded up to what the device shares; zero at first.
  virtual std::unique_ptr<SharedDeviceMemory> share_memory(size_t size_bytes) = 0;
  virtual std::unique_ptr<SharedDeviceMemory> open_memory(int fd, size_t size_bytes) = 0;  // takes the descriptor

  // 64 bits per range that change when any byte does, or its place in the range; the same wherever the range lies.
  virtual std::unique_ptr<PendingFingerprints> fingerprint(std::span<const DeviceRange> ranges) = 0;
  // Of two dense tensors of one shape in f32, f16 or bf16: how many elements are further apart, or not finite and not
  // the same bit by bit. The largest |b| is that of the finite ones. Waits for the stream.
  virtual int64_t count_apart(const View& a, const View& b, const Apart& allowed) = 0;
  virtual void put_together(void* to, const void* set, const Pieces& pieces) = 0;
  // Turns every byte over with a stream of numbers that follows from the key; twice is not at all.
  virtual void mask(std::span<const DeviceRange> ranges, uint64_t key) = 0;
  // All of them in one piece of work: a sample of many calls has hundreds.
  virtual void write(std::span<const DeviceWrite> writes, uint64_t key) = 0;

  virtual std::unique_ptr<StreamHold> hold_stream(int64_t limit_ns) = 0;
  // Every stream of this process, not only ours.
  virtual void synchronize_all() = 0;

  // In stream order: other data takes the place of all there is in the L2 cache.
  virtual void flush_l2() = 0;
  // What was kept in the L2 cache on request no longer is; and how many bytes are set aside for such requests.
  virtual void reset_persisting_l2() = 0;
  virtual size_t persisting_l2_bytes() = 0;

  // Best of several reads or writes of the same memory of that size: in the L2 cache where it fits there. Bytes a
  // second; measured anew in every call.
  virtual double read_speed(size_t size_bytes) = 0;
  virtual double write_speed(size_t size_bytes) = 0;

  // Work between on and off is what a profiler is to look at.
  virtual void mark_for_profiler(bool on) = 0;
};

}  // namespace fk
