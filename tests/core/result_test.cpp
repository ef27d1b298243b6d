// The three channels of errors: Result for outcomes, Error for commands that cannot continue, FK_CHECK for our bugs.
#include "core/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace fk {
namespace {

Result<int> half(int x) {
  if (x % 2 != 0) return failure("{} is odd; give an even number.", x);
  return x / 2;
}

Result<std::vector<int>> numbers() { return std::vector<int>{1, 2, 3}; }

TEST(Result, HoldsAValueOrASentence) {
  EXPECT_TRUE(half(4).ok());
  EXPECT_EQ(*half(4), 2);
  EXPECT_EQ(half(4).value(), 2);
  EXPECT_FALSE(half(3));
  EXPECT_EQ(half(3).error(), "3 is odd; give an even number.");
}

TEST(Result, OrThrowTurnsTheSentenceIntoAnError) {
  EXPECT_EQ(half(8).or_throw(), 4);
  try {
    (void)half(7).or_throw();
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "7 is odd; give an even number.");
  }
}

TEST(Result, MovesValuesThatCannotBeCopied) {
  auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(5); };
  std::unique_ptr<int> p = make().or_throw();
  EXPECT_EQ(*p, 5);
  EXPECT_EQ(*make().value(), 5);
  EXPECT_EQ(**make(), 5);
}

// The value outlives the temporary it was taken from, so it may stand in the head of a loop.
TEST(Result, AValueTakenFromATemporaryLives) {
  int sum = 0;
  for (int x : numbers().or_throw()) sum += x;
  for (int x : numbers().value()) sum += x;
  EXPECT_EQ(sum, 12);
}

TEST(Result, AStringIsAValueAndNotAFailure) {
  Result<std::string> r = std::string("fine");
  EXPECT_TRUE(r.ok());
  EXPECT_EQ(r->size(), 4u);
}

TEST(ResultDeathTest, TakingWhatIsNotThereIsOurBug) {
  EXPECT_DEATH((void)half(3).value(), "broken invariant");
  EXPECT_DEATH((void)half(4).error(), "broken invariant");
}

TEST(Error, FormatsItsSentence) {
  EXPECT_STREQ(Error("Cannot read {}: {} bytes missing.", "a.bin", 3).what(), "Cannot read a.bin: 3 bytes missing.");
  EXPECT_STREQ(Error(std::string("braces {} stay")).what(), "braces {} stay");
  EXPECT_STREQ(Error("plain").what(), "plain");
}

TEST(Error, AUsageErrorIsAnErrorOfItsOwn) {
  try {
    throw UsageError("--threads {} is not possible; give 1 or more.", 0);
  } catch (const Error& e) {
    EXPECT_NE(dynamic_cast<const UsageError*>(&e), nullptr);
    EXPECT_STREQ(e.what(), "--threads 0 is not possible; give 1 or more.");
  }
}

TEST(CheckDeathTest, NamesPlaceExpressionAndReason) {
  EXPECT_DEATH(FK_CHECK(1 + 1 == 3), "result_test.cpp:[0-9]+: broken invariant: 1 \\+ 1 == 3\n");
  EXPECT_DEATH(FK_CHECK(false, "the reason"), "broken invariant: false: the reason");
  FK_CHECK(true);
}

}  // namespace
}  // namespace fk
