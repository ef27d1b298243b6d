#include "measure/steal_time.h"

#include <gtest/gtest.h>

namespace fk {
namespace {

constexpr std::string_view kStat =
    "cpu  4079141 1199815 507441 1275332 4069 0 3092 40608 0 0\n"
    "cpu0 11 12 13 14 15 16 17 18 19 20\n"
    "cpu1 21 22 23 24 25 26 27 28 29 30\n"
    "cpu10 1 2 3 4 5 6 7\n"
    "intr 38 39\n";

TEST(StealTime, IsTheEighthNumberOfTheCore) {
  EXPECT_EQ(stolen_ticks(kStat, 0), 18);
  EXPECT_EQ(stolen_ticks(kStat, 1), 28);
}

TEST(StealTime, IsUnknownWhereTheSystemDoesNotCountIt) {
  EXPECT_EQ(stolen_ticks(kStat, 2), std::nullopt);
  EXPECT_EQ(stolen_ticks(kStat, 10), std::nullopt) << "an old kernel stops before it";
  EXPECT_EQ(stolen_ticks("cpu0 a b c d e f g h\n", 0), std::nullopt);
  EXPECT_EQ(stolen_ticks("", 0), std::nullopt);
}

TEST(StealTime, IsKnownOfThisMachine) {
  std::optional<int64_t> before = stolen_ticks();
  ASSERT_TRUE(before);
  EXPECT_GE(*before, 0);
}

}  // namespace
}  // namespace fk
