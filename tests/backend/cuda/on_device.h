// Common part of CUDA tests: a device, or the reason why they are skipped; copies to and from it.
#pragma once

#include <gtest/gtest.h>

#include "core/device_runtime.h"
#include "core/memory.h"

namespace fk {

inline constexpr Device kCuda{DeviceKind::kCuda, 0};

class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string why = device_missing(kCuda); !why.empty()) GTEST_SKIP() << why;
  }
  static DeviceRuntime& runtime() { return device_runtime(kCuda); }

  static Tensor uploaded(const View& host) {
    Tensor there(host.spec(), kCuda);
    copy_between(host, there);
    return there;
  }
  static Tensor downloaded(const View& there) {
    Tensor host(there.spec());
    copy_between(there, host);
    return host;
  }
  static std::vector<std::byte> bytes_of(const View& there) {
    Tensor host = downloaded(there);
    const auto* first = static_cast<const std::byte*>(host.view().data());
    return {first, first + host.view().size_bytes()};
  }
};

}  // namespace fk
