// Tests that end in every way, for apart_test.py.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <unistd.h>

namespace {

int g_calls = 0;

TEST(Sample, Passes) { EXPECT_EQ(++g_calls, 1); }
TEST(Sample, Crashes) { std::abort(); }
TEST(Sample, EndsTheProgram) { std::_Exit(0); }
TEST(Sample, Fails) { EXPECT_EQ(1, 2) << "what it says"; }
TEST(Sample, IsSkipped) { GTEST_SKIP() << "for a reason"; }
TEST(Sample, SeesNothingOfTheOthers) { EXPECT_EQ(++g_calls, 1); }
// Says where its temporary files are and waits to be killed.
TEST(Waits, ForItsEnd) {
  const char* folder = std::getenv("TMPDIR");
  std::ofstream(std::getenv("SAMPLE_SAYS")) << (folder == nullptr ? "" : folder) << std::endl;
  sleep(120);
}
class Many : public testing::TestWithParam<int> {};
TEST_P(Many, Pass) { EXPECT_GE(GetParam(), 0); }
INSTANTIATE_TEST_SUITE_P(All, Many, testing::Range(0, 50));

}  // namespace
