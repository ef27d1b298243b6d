// Skips tests that cannot run under a sanitizer, with the reason.
#pragma once

#include <gtest/gtest.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FK_NOT_UNDER_A_SANITIZER(why) GTEST_SKIP() << "not under a sanitizer: " << (why)
#else
#define FK_NOT_UNDER_A_SANITIZER(why) static_cast<void>(0)
#endif

namespace fk {

// A sanitizer's runtime reserves terabytes of addresses and catches crashes itself: the first exceeds the limits of a
// sandboxed runner, the second hides the crash from the judge.
inline constexpr const char* kNeedsTheSandbox =
    "it runs in a sandbox, which forbids what the sanitizer's runtime needs";
inline constexpr const char* kNeedsFullSpeed = "it measures time";

}  // namespace fk
