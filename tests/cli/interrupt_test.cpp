// A signal ends `kernels` quickly in every phase, and leaves nothing behind.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "tests/cli/kernels_fixture.h"
#include "tests/sanitizer.h"

namespace fk {
namespace {

using Clock = std::chrono::steady_clock;

class Interrupt : public KernelsVerb {
 protected:
  // A separate folder for temporary files; orphaned processes become children of this one.
  Interrupt() : tmp_(folder_ / "tmp") {
    fs::create_directories(tmp_);
    setenv("TMPDIR", tmp_.c_str(), 1);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  ~Interrupt() override {
    unsetenv("TMPDIR");
    prctl(PR_SET_CHILD_SUBREAPER, 0);
  }

  // True once a runner has been there for a while.
  bool runner_at_work(std::chrono::milliseconds a_while) {
    if (first_seen_ == Clock::time_point() && !fs::is_empty(tmp_)) first_seen_ = Clock::now();
    return first_seen_ != Clock::time_point() && Clock::now() - first_seen_ > a_while;
  }

  void expect_nothing_left() const {
    EXPECT_TRUE(fs::is_empty(tmp_)) << fs::directory_iterator(tmp_)->path() << " is left";
    EXPECT_TRUE(comes_true([] { return waitpid(-1, nullptr, WNOHANG) < 0; })) << "a process is left";
    std::error_code none;
    for (fs::directory_iterator entry(folder_ / "home/cache/candidates", none), end; !none && entry != end; ++entry)
      EXPECT_NE(entry->path().extension(), ".tmp") << entry->path() << " is left";
  }
  void expect_quick_end(const Outcome& o) const {
    EXPECT_EQ(o.exit_code, 1) << o.err;
    EXPECT_LT(o.seconds_to_end, kAtOnceSeconds) << "it took its time";
    EXPECT_NE(o.err.find("Interrupted after 0 of "), std::string::npos) << o.err;
    EXPECT_TRUE(result()["results"].empty()) << "what was cut off is no result";
    EXPECT_EQ(result()["interrupted"], true);
    expect_nothing_left();
  }

  fs::path tmp_;
  Clock::time_point first_seen_;
};

constexpr const char* kHangs = "for (volatile int turns = 0;; turns = turns + 1) static_cast<void>(up), (void)gate;";

TEST_F(Interrupt, SlowEndsWhileARunnerHangs) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  write_silu(kHangs);
  for (int signal_number : {SIGTERM, SIGINT}) {
    first_seen_ = {};
    Outcome o = run_and_interrupt(
        {"kernels", "--model", "tiny-llama", "--filter", "tp1/decode-8", "--threads", "1", "--output-json",
         result_path()},
        [&] { return runner_at_work(std::chrono::milliseconds(1500)); }, signal_number);
    expect_quick_end(o);
  }
}

// The judge's own arithmetic: float64 products of two thousand rows take seconds.
TEST_F(Interrupt, SlowEndsWhileAnOracleComputes) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  Outcome o = run_and_interrupt(
      {"kernels", "--self-test", "--model", "llama-3.2-1b", "--target", "llama_mlp", "--filter", "decode-2048",
       "--threads", "1", "--output-json", result_path()},
      [&] { return runner_at_work(std::chrono::milliseconds(1000)); }, SIGTERM);
  expect_quick_end(o);
}

TEST_F(Interrupt, EndsWhileACandidateIsCompiled) {
  write_silu(kRight);
  fs::path compiler = folder_ / "compiler";
  std::ofstream(compiler) << "#!/bin/sh\nsleep 60 &\nsleep 60\n";
  chmod(compiler.c_str(), 0755);
  setenv("CXX", compiler.c_str(), 1);
  auto compiling = [&] {
    std::error_code none;
    for (fs::directory_iterator entry(folder_ / "home/cache/candidates", none), end; !none && entry != end; ++entry)
      if (entry->path().extension() == ".tmp") return usleep(100'000) == 0;
    return false;
  };
  Outcome o = run_and_interrupt(
      {"kernels", "--model", "tiny-llama", "--filter", "tp1/decode-8", "--output-json", result_path()}, compiling,
      SIGTERM);
  unsetenv("CXX");
  expect_quick_end(o);
}

TEST_F(Interrupt, OtherVerbsEndAsTheSignalSays) {
  auto started = Clock::now();
  auto soon = [&] { return Clock::now() - started > std::chrono::milliseconds(300); };
  Arguments endless = {"generate", "--model", "llama-3.2-1b", "--load-format", "dummy", "--prompt", "a"};
  Outcome o = run_and_interrupt(endless, soon, SIGTERM);
  EXPECT_EQ(o.exit_code, 128 + SIGTERM) << o.err;
  EXPECT_LT(o.seconds_to_end, kAtOnceSeconds);
}

}  // namespace
}  // namespace fk
