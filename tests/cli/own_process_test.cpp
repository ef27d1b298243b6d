// Processes of this program: what is said about one that failed. Here they are processes of the tests.
#include "cli/own_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "core/error.h"
#include "core/json.h"

namespace fk {
namespace {

using testing::HasSubstr;
using testing::Not;

// Set for the processes that a test starts.
constexpr const char* kChild = "FK_TEST_OWN_PROCESS";

TEST(OwnProcessChild, PrintsAWarningAndCrashes) {
  if (getenv(kChild) == nullptr) return;
  std::fputs("fastkernels: warning: the machine is busy\n", stderr);
  std::signal(SIGSEGV, SIG_DFL);
  raise(SIGSEGV);
}
TEST(OwnProcessChild, FailsAndThenWarns) {
  if (getenv(kChild) == nullptr) return;
  std::fputs("fastkernels: error: there is no such model\nfastkernels: warning: the machine is busy\n", stderr);
  _exit(1);
}

std::string failure_of(const std::string& test) {
  setenv(kChild, "1", 1);
  std::string failure;
  try {
    json_of_own_process({"--gtest_filter=OwnProcessChild." + test}, "The run");
  } catch (const Error& e) {
    failure = e.what();
  }
  unsetenv(kChild);
  return failure;
}

TEST(OwnProcess, NamesASignalAndLeavesWarningsOut) {
  const std::string crashed = failure_of("PrintsAWarningAndCrashes");
  EXPECT_THAT(crashed, HasSubstr("The run failed: signal Segmentation fault ended it"));
  EXPECT_THAT(crashed, Not(HasSubstr("busy")));
  EXPECT_THAT(failure_of("FailsAndThenWarns"), HasSubstr("there is no such model"));
}

}  // namespace
}  // namespace fk
