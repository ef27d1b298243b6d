// Tests that end in every way, for apart_test.py.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
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

// The subjects of --together. "left" fails in the process in which it ran before.
class Subjects : public testing::TestWithParam<std::string> {
 protected:
  static int calls_of(const std::string& subject) { return ++calls_[subject]; }

 private:
  static inline std::map<std::string, int> calls_;
};
TEST_P(Subjects, First) { EXPECT_EQ(calls_of(GetParam().substr(0, 4)), 1); }
TEST_P(Subjects, Second) {
  const int calls = calls_of(GetParam().substr(0, 4));
  if (GetParam() == "skip_by_x") GTEST_SKIP() << "for a reason";
  if (GetParam() == "dies_by_x") std::abort();
  if (GetParam() == "left") {
    EXPECT_EQ(calls, 1);
  }
}
INSTANTIATE_TEST_SUITE_P(All, Subjects, testing::Values("good", "skip_by_x", "dies_by_x", "left"),
                         [](const auto& test) { return test.param; });
class SharedSubjects : public testing::TestWithParam<std::string> {};
TEST_P(SharedSubjects, HaveOneProcess) {
  static int calls = 0;
  ++calls;
  if (GetParam().ends_with("two")) {
    EXPECT_EQ(calls, 2);
  }
}
INSTANTIATE_TEST_SUITE_P(All, SharedSubjects, testing::Values("a_by_one", "b_by_one", "a_by_two", "b_by_two"),
                         [](const auto& test) { return test.param; });

}  // namespace
