#include "tests/conformance/device/aliased_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <utility>

#include "core/error.h"

namespace fk::conformance {
namespace {

struct Region {
  size_t size = 0;
  std::byte* alias = nullptr;
};

// By the address the device gave out.
std::map<std::byte*, Region>& regions() {
  static auto& all = *new std::map<std::byte*, Region>;
  return all;
}

bool failing = false;

class NoRecording final : public RecordedWork {
 public:
  void launch() override {}
};

class AliasedDevice final : public DeviceRuntime {
 public:
  Device device() const override { return kAliased; }
  const DeviceFacts& facts() const override { return facts_; }
  DeviceSpeeds measure() override { return {}; }
  size_t free_bytes() override { return size_t{1} << 30; }

  void* allocate(size_t size_bytes) override {
    int file = memfd_create("device", 0);
    FK_CHECK(file >= 0 && ftruncate(file, static_cast<off_t>(size_bytes)) == 0);
    void* address = mmap(nullptr, size_bytes, PROT_NONE, MAP_SHARED, file, 0);
    void* alias = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    FK_CHECK(address != MAP_FAILED && alias != MAP_FAILED);
    regions()[static_cast<std::byte*>(address)] = {size_bytes, static_cast<std::byte*>(alias)};
    return address;
  }
  void release(void* address) noexcept override {
    auto at = regions().find(static_cast<std::byte*>(address));
    munmap(at->second.alias, at->second.size);
    munmap(address, at->second.size);
    regions().erase(at);
  }
  void* allocate_host(size_t size_bytes) override { return ::operator new(size_bytes); }
  void release_host(void* address) noexcept override { ::operator delete(address); }

  void upload(void* to, const void* from, size_t n) override { std::memcpy(reachable(to), from, n); }
  void download(void* to, const void* from, size_t n) override { std::memcpy(to, reachable(from), n); }
  void download_later(void* to, const void* from, size_t n) override { download(to, from, n); }
  void copy(void* to, const void* from, size_t n) override { std::memmove(reachable(to), reachable(from), n); }
  void fill(void* to, std::byte value, size_t n) override { std::memset(reachable(to), static_cast<int>(value), n); }
  void fill_dummy(const View&, uint64_t, float, float, int64_t) override { throw Error("It makes no weights."); }

  void synchronize() override {
    if (std::exchange(failing, false)) throw Error("Work before this point failed.");
  }
  void* stream() override { return this; }
  void begin_recording() override {}
  std::unique_ptr<RecordedWork> end_recording() override { return std::make_unique<NoRecording>(); }
  void abandon_recording() noexcept override {}
  int64_t recordings() const override { return 0; }
  std::unique_ptr<DeviceEvent> make_event() override { throw Error("It has no clock."); }

 private:
  DeviceFacts facts_;
};

}  // namespace

void register_aliased_device() {
  bool registered = register_device_driver(DeviceKind::kCuda, {.count = [] { return 1; },
                                                               .unavailable = [](int) { return std::string(); },
                                                               .open = [](int) -> std::unique_ptr<DeviceRuntime> {
                                                                 return std::make_unique<AliasedDevice>();
                                                               }});
  FK_CHECK(registered);
}

void fail_next_wait() { failing = true; }

void* reachable(const void* on_device) {
  auto* address = static_cast<std::byte*>(const_cast<void*>(on_device));
  auto after = regions().upper_bound(address);
  FK_CHECK(after != regions().begin(), "not an address of the device");
  auto& [start, region] = *std::prev(after);
  FK_CHECK(address < start + region.size, "not an address of the device");
  return region.alias + (address - start);
}

View reachable(const View& v) {
  if (v.numel() == 0) return View(v.data(), v.spec());
  void* data = reachable(v.data());
  if (v.contiguous()) return View(data, v.spec());
  View rows = View(data, {v.size(0), v.stride(0)}, v.dtype()).narrow(1, 0, v.numel() / v.size(0));
  return v.rank() == 3 ? rows.split_last(v.size(1), v.size(2)) : rows;
}

}  // namespace fk::conformance
