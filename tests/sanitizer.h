// Tests that cannot run under a sanitizer say so and why, so that a run of all tests under one is green.
#pragma once

#include <gtest/gtest.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FK_NOT_UNDER_A_SANITIZER(why) GTEST_SKIP() << "not under a sanitizer: " << (why)
#else
#define FK_NOT_UNDER_A_SANITIZER(why) static_cast<void>(0)
#endif

namespace fk {

// A sanitizer's runtime reserves terabytes of addresses and catches crashes itself: the first is more than a sandboxed
// runner may have, the second takes the crash from the judge that waits for it.
inline constexpr const char* kNeedsTheSandbox =
    "it runs in a sandbox, which forbids what the sanitizer's runtime needs";
inline constexpr const char* kNeedsFullSpeed = "it measures time";

}  // namespace fk
