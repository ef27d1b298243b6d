// A simulated GPU in host memory: operations run at once, and its kernels are the CPU's. It is used to test the judge's
// GPU code (shared segments, masks, checksums, the two exchanges of a run) without a GPU.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/device_judging.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "measure/timer.h"
#include "ops/registry.h"

namespace fk {
namespace {

// A GPU with such a low speed that every call is faster than its floor.
bool slow() { return getenv("FAKE_GPU_SLOW") != nullptr; }

class Memory final : public SharedDeviceMemory {
 public:
  Memory(int fd, size_t size_bytes) : size_((size_bytes + 4095) / 4096 * 4096), own_(fd < 0) {
    fd_ = own_ ? memfd_create("fake gpu", MFD_CLOEXEC) : fd;
    if (own_ && ftruncate(fd_, static_cast<off_t>(size_)) != 0) throw Error("The fake GPU has no memory.");
    address_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (!own_) close(fd_);
    if (address_ == MAP_FAILED) throw Error("The fake GPU cannot map its memory.");
  }
  ~Memory() override {
    munmap(address_, size_);
    if (own_) close(fd_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* address() const override { return address_; }
  size_t size_bytes() const override { return size_; }
  int fd() const override { return own_ ? fd_ : -1; }

 private:
  size_t size_;
  bool own_;
  int fd_ = -1;
  void* address_ = nullptr;
};

struct Prints final : PendingFingerprints {
  std::vector<uint64_t> list;
  std::vector<uint64_t> values() override { return list; }
};

struct Hold final : StreamHold {
  void release() override { released = true; }
  bool held() override { return released; }
  double clock_mhz() override { return 1000; }
  bool released = false;
};

class Judging final : public DeviceJudging {
 public:
  std::unique_ptr<SharedDeviceMemory> share_memory(size_t bytes) override {
    return std::make_unique<Memory>(-1, bytes);
  }
  std::unique_ptr<SharedDeviceMemory> open_memory(int fd, size_t bytes) override {
    return std::make_unique<Memory>(fd, bytes);
  }
  std::unique_ptr<PendingFingerprints> fingerprint(std::span<const DeviceRange> ranges) override {
    auto prints = std::make_unique<Prints>();
    for (const DeviceRange& range : ranges) {
      uint64_t hash = range.size_bytes;
      for (size_t i = 0; i < range.size_bytes; ++i)
        hash = (hash ^ static_cast<const uint8_t*>(range.address)[i]) * 0x100000001b3ull;
      prints->list.push_back(hash);
    }
    return prints;
  }
  int64_t count_apart(const View& a, const View& b, const Apart& allowed) override {
    Tensor wide_a(a.shape(), DType::kF64), wide_b(b.shape(), DType::kF64);
    copy_elements(View(a.data(), a.spec()), wide_a);
    copy_elements(View(b.data(), b.spec()), wide_b);
    const double *x = wide_a.ptr<double>(), *y = wide_b.ptr<double>();
    double largest = 0;
    for (int64_t i = 0; i < b.numel(); ++i)
      if (std::isfinite(y[i])) largest = std::max(largest, std::abs(y[i]));
    int64_t beyond = 0;
    for (int64_t i = 0; i < b.numel(); ++i)
      if (!(x[i] == y[i] ||
            std::abs(x[i] - y[i]) <= allowed.relative * std::abs(y[i]) + allowed.of_scale * largest + allowed.absolute))
        ++beyond;
    return beyond;
  }
  void put_together(void* to, const void* set, const Pieces& pieces) override { fk::put_together(to, set, pieces); }
  void mask(std::span<const DeviceRange> ranges, uint64_t key) override {
    for (const DeviceRange& range : ranges)
      for (size_t i = 0; i < range.size_bytes; ++i)
        static_cast<uint8_t*>(range.address)[i] ^= static_cast<uint8_t>((key + i) * 0x9E3779B97F4A7C15ull >> 56);
  }
  void write(std::span<const DeviceWrite> writes, uint64_t key) override {
    for (const DeviceWrite& w : writes) {
      if (w.from != nullptr)
        std::memmove(w.to, w.from, w.size_bytes);
      else
        std::memset(w.to, w.value, w.size_bytes);
      DeviceRange range{w.to, w.size_bytes};
      if (w.masked) mask(std::span(&range, 1), key);
    }
  }
  std::unique_ptr<StreamHold> hold_stream(int64_t) override { return std::make_unique<Hold>(); }
  void synchronize_all() override {}
  void flush_l2() override {}
  void reset_persisting_l2() override {}
  size_t persisting_l2_bytes() override { return 0; }
  double read_speed(size_t) override { return slow() ? 1e3 : 1e13; }
  double write_speed(size_t) override { return slow() ? 1e3 : 1e13; }
  void mark_for_profiler(bool) override {}
};

struct Event final : DeviceEvent {
  int64_t at = 0;
  void record() override { at = now_ns(); }
  void wait() override {}
  double elapsed_ms_since(const DeviceEvent& start) override {
    return static_cast<double>(at - static_cast<const Event&>(start).at) * 1e-6;
  }
};

class Runtime final : public DeviceRuntime {
 public:
  Device device() const override { return {DeviceKind::kCuda, 0}; }
  const DeviceFacts& facts() const override { return facts_; }
  DeviceSpeeds measure() override { return {slow() ? 1e-6 : 1e4, slow() ? 1e-6 : 1e4, 1e4, 1e4, 1e4, 1, 1}; }
  size_t free_bytes() override { return size_t{1} << 30; }
  // Aligned as cudaMalloc() does: kernels of this CPU work in it, too, and some store aligned vectors.
  void* allocate(size_t size_bytes) override {
    constexpr size_t kAlignment = 256;
    return std::aligned_alloc(kAlignment, (size_bytes + kAlignment - 1) / kAlignment * kAlignment);
  }
  void release(void* address) noexcept override { std::free(address); }
  void* allocate_host(size_t size_bytes) override { return std::malloc(size_bytes); }
  void release_host(void* address) noexcept override { std::free(address); }
  void upload(void* to, const void* from, size_t size_bytes) override { std::memcpy(to, from, size_bytes); }
  void download(void* to, const void* from, size_t size_bytes) override { std::memcpy(to, from, size_bytes); }
  void download_later(void* to, const void* from, size_t size_bytes) override { std::memcpy(to, from, size_bytes); }
  void copy(void* to, const void* from, size_t size_bytes) override { std::memcpy(to, from, size_bytes); }
  void fill(void* to, std::byte value, size_t size_bytes) override {
    std::memset(to, static_cast<int>(value), size_bytes);
  }
  void fill_dummy(const View&, uint64_t, float, float, int64_t) override { throw Error("not on the fake GPU"); }
  void synchronize() override {}
  void* stream() override { return this; }  // anything but null
  void begin_recording() override { throw Error("not on the fake GPU"); }
  std::unique_ptr<RecordedWork> end_recording() override { throw Error("not on the fake GPU"); }
  void abandon_recording() noexcept override {}
  int64_t recordings() const override { return 0; }
  std::unique_ptr<DeviceEvent> make_event() override { return std::make_unique<Event>(); }
  DeviceJudging& judging() override { return judging_; }

 private:
  DeviceFacts facts_{.name = "fake GPU", .architecture = "sm_90", .driver = "", .library = "", .clock_mhz = 1000};
  Judging judging_;
};

// The CPU's kernels can read its memory.
void lend_kernels() {
  for (const OperatorInfo* op : Registry::instance().operators()) {
    std::vector<ImplementationInfo> lent;
    for (const ImplementationInfo& own : op->implementations)
      if (own.device == DeviceKind::kCpu && !own.any_device && !own.is_oracle && own.foreign == nullptr)
        lent.push_back(own);
    for (ImplementationInfo& copy : lent) {
      copy.device = DeviceKind::kCuda;
      Registry::instance().add(op->name, copy);
    }
  }
}

[[maybe_unused]] const bool registered =
    register_device_driver(DeviceKind::kCuda, {.count = [] { return 1; },
                                               .unavailable = [](int) { return std::string(); },
                                               .open = [](int) -> std::unique_ptr<DeviceRuntime> {
                                                 lend_kernels();
                                                 return std::make_unique<Runtime>();
                                               }});

}  // namespace
}  // namespace fk
