// Times as people write them after --since.
#include "track/time_text.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace fk {
namespace {

TEST(Since, ReadsDatesAndAges) {
  constexpr int64_t kNow = 1'794'727'948'953'672, kSecond = 1'000'000;  // 2026-11-15 07:32:28.953672
  EXPECT_EQ(parse_since("2026-11-15 07:32:28", kNow), 1'794'727'948 * kSecond);
  EXPECT_EQ(parse_since("2026-11-15T07:32", kNow), 1'794'727'920 * kSecond);
  EXPECT_EQ(parse_since("2026-11-15", kNow), 1'794'700'800 * kSecond);
  EXPECT_EQ(parse_since("today", kNow), 1'794'700'800 * kSecond);
  EXPECT_EQ(parse_since("yesterday", kNow), 1'794'614'400 * kSecond);
  EXPECT_EQ(parse_since("90s", kNow), kNow - 90 * kSecond);
  EXPECT_EQ(parse_since("30m", kNow), kNow - 1800 * kSecond);
  EXPECT_EQ(parse_since("2h", kNow), kNow - 7200 * kSecond);
  EXPECT_EQ(parse_since("3d", kNow), kNow - 3 * 86400 * kSecond);
  EXPECT_EQ(parse_since("1w", kNow), kNow - 7 * 86400 * kSecond);
  EXPECT_EQ(parse_since("2024-02-29", kNow), 1'709'164'800 * kSecond);
  for (const char* wrong :
       {"", "tomorrow", "3", "3y", "-3d", "99999999999999d", "2026-13-01", "2026-02-29", "2026-11-15 25:00",
        "2026-11-15 07:61", "2026-11-15 07:32:28 and more", "2026-11-15 ", "15.11.2026"})
    EXPECT_THROW(parse_since(wrong, kNow), UsageError) << wrong;
}

}  // namespace
}  // namespace fk
