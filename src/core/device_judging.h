// DeviceJudging: the device functions of the judge: memory shared by two processes, checksums, held streams, cold
// caches.
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

// Device memory that another process can open by a descriptor. Not from allocate()'s pool: nothing else is stored in
// it.
class SharedDeviceMemory {
 public:
  virtual ~SharedDeviceMemory() = default;
  virtual void* address() const = 0;
  virtual size_t size_bytes() const = 0;
  virtual int fd() const = 0;  // the owner's descriptor, open while this object exists; -1 for opened memory
};

// Checksums that are computed in stream order and read later.
class PendingFingerprints {
 public:
  virtual ~PendingFingerprints() = default;
  virtual std::vector<uint64_t> values() = 0;  // one per range; waits for the stream
};

// Bytes to be written on the device: copied from other device memory, or all with one value.
struct DeviceWrite {
  void* to = nullptr;
  const void* from = nullptr;  // null: `value` everywhere
  size_t size_bytes = 0;
  uint8_t value = 0;
  bool masked = false;  // masked as by mask()
};

// The allowed difference of two numbers a and b: relative |b| + of_scale max|b| + absolute.
struct Apart {
  double relative = 0, of_scale = 0, absolute = 0;
};

// A kernel that blocks the stream until release(), so that all work behind it is queued before any of it starts. It
// ends by itself after a time limit, since some work cannot be queued behind it.
class StreamHold {
 public:
  virtual ~StreamHold() = default;
  virtual void release() = 0;
  // After it has ended: whether it blocked until release(), and the clock of the multiprocessors meanwhile.
  virtual bool held() = 0;
  virtual double clock_mhz() = 0;  // zero if it was too short to measure
};

class DeviceJudging {
 public:
  virtual ~DeviceJudging() = default;

  // The size is rounded up to the granularity of shared memory; initially zero.
  virtual std::unique_ptr<SharedDeviceMemory> share_memory(size_t size_bytes) = 0;
  virtual std::unique_ptr<SharedDeviceMemory> open_memory(int fd, size_t size_bytes) = 0;  // takes the descriptor

  // A 64-bit checksum per range. It changes if any byte or its position in the range changes, and does not depend on
  // the address of the range.
  virtual std::unique_ptr<PendingFingerprints> fingerprint(std::span<const DeviceRange> ranges) = 0;
  // Compares two dense tensors of one shape in f32, f16 or bf16: counts the elements whose difference is larger, or
  // that are not finite and not bit-identical. The largest |b| is that of the finite ones. Waits for the stream.
  virtual int64_t count_apart(const View& a, const View& b, const Apart& allowed) = 0;
  virtual void put_together(void* to, const void* set, const Pieces& pieces) = 0;
  // XORs every byte with a random stream derived from the key; a second call restores the bytes.
  virtual void mask(std::span<const DeviceRange> ranges, uint64_t key) = 0;
  // All writes in one kernel: a sample of many calls has hundreds.
  virtual void write(std::span<const DeviceWrite> writes, uint64_t key) = 0;

  virtual std::unique_ptr<StreamHold> hold_stream(int64_t limit_ns) = 0;
  // Waits for every stream of this process.
  virtual void synchronize_all() = 0;

  // In stream order: replaces the whole content of the L2 cache.
  virtual void flush_l2() = 0;
  // Resets persisting lines of the L2 cache; and the number of bytes set aside for them.
  virtual void reset_persisting_l2() = 0;
  virtual size_t persisting_l2_bytes() = 0;

  // Best of several reads or writes of the same memory of that size: in the L2 cache where it fits there. In bytes per
  // second; measured again in every call.
  virtual double read_speed(size_t size_bytes) = 0;
  virtual double write_speed(size_t size_bytes) = 0;

  // A profiler measures the work between on and off.
  virtual void mark_for_profiler(bool on) = 0;
};

}  // namespace fk
