// `kernels --check`, `--watch` and `--fail-fast`, and their output while they run.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <sstream>
#include <thread>

#include "tests/cli/csv.h"
#include "tests/cli/kernels_fixture.h"
#include "tests/sanitizer.h"

namespace fk {
namespace {

class Loop : public KernelsVerb {
 protected:
  // Saves like editors that replace the file atomically by renaming another file.
  void save_silu(const std::string& body) const {
    fs::path path = folder_ / "candidate/L1/silu_and_mul.cpp", kept = folder_ / "kept.cpp", next = path.string() + "~";
    fs::rename(path, kept);
    write_silu(body);
    fs::rename(path, next);
    fs::rename(kept, path);
    fs::rename(next, path);
  }
  Arguments arguments(const Arguments& more) const {
    Arguments all = {"kernels", "--model", "tiny-llama", "--threads", "1", "--num-runs", "10", "--launches", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(Loop, SlowACheckSaysRightOrWrongAndTimesNothing) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  write_silu(kRight);
  Outcome o = run_program(arguments({"--check", "--filter", "=tiny-llama/tp1/decode-8"}));
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_NE(o.out.find("1/1 passed; a check: nothing was timed"), std::string::npos) << o.out;
  EXPECT_EQ(o.out.find("SPEEDUP"), std::string::npos) << o.out;
  EXPECT_FALSE(fs::exists(folder_ / "home/bench")) << "a check leaves no file that nobody asked for";
  EXPECT_FALSE(fs::exists(folder_ / "home/history.db")) << "a check is no run of the history";

  write_silu(kWrongSilu);
  o = run_program(arguments({"--check", "--filter", "=tiny-llama/tp1/decode-8", "--output-json", result_path()}));
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_NE(o.out.find("INCORRECT_NUMERICAL"), std::string::npos) << o.out;
  Json r = result();
  EXPECT_EQ(r["options"]["check"], true);
  ASSERT_EQ(r["results"].size(), 1u);
  EXPECT_FALSE(r["results"][0].contains("timing"));
  EXPECT_EQ(run_program(arguments({"--check", "--repro", "5:1"})).exit_code, 2);
}

TEST_F(Loop, SlowTheHomeMayBeAnyBytes) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  setenv("FASTKERNELS_HOME", (folder_ / "home\xff").c_str(), 1);
  write_silu(kRight);
  Outcome o = run_program({"kernels", "--check", "--model", "tiny-llama", "--filter", "=tiny-llama/tp1/decode-8"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_NE(o.out.find("PASSED"), std::string::npos) << o.out;
}

TEST_F(Loop, ACheckTakesNoNameForARun) {
  Outcome o = run_program({"kernels", "--check", "--target", "softmax", "--name", "first"});
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_NE(o.err.find("--check stores no run"), std::string::npos) << o.err;
}

TEST_F(Loop, SlowFailFastStopsAtTheFirstFailure) {
  write_silu("out.row<T>(t)[i] = T(gate)");  // no semicolon
  Outcome o = kernels({"--filter", "tiny-llama/tp1/decode", "--fail-fast"});
  EXPECT_EQ(o.exit_code, 1);
  Json r = result();
  EXPECT_EQ(r["results"].size(), 1u);
  EXPECT_EQ(r["not_run"].size(), 5u) << r["not_run"];
  EXPECT_EQ(r["not_run"][0]["operator"], "silu_and_mul");
  EXPECT_NE(o.out.find("0/6 passed, 5 not run"), std::string::npos) << o.out;
  EXPECT_NE(o.err.find("--fail-fast ended the run there"), std::string::npos) << o.err;
  auto records = parse_csv(kernels({"--filter", "tiny-llama/tp1/decode", "--fail-fast", "--csv"}).out);
  ASSERT_EQ(records.size(), 7u);
  EXPECT_EQ(records[1][2], "BUILD_ERROR");
  for (size_t i = 2; i < records.size(); ++i) EXPECT_EQ(records[i][2], "NOT_RUN");
}

TEST_F(Loop, SlowEverySaveIsJudgedUntilControlC) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  write_silu(kRight);
  RunningProgram watch(arguments({"--watch", "--check", "--filter", "=tiny-llama/tp1/decode-8"}));
  ASSERT_TRUE(watch.prints("1/1 passed")) << watch.out() << watch.err();
  save_silu(kWrongSilu);
  ASSERT_TRUE(watch.prints("PASSED -> INCORRECT_NUMERICAL")) << watch.out() << watch.err();
  write_silu("out.row<T>(t)[i] = T(gate)");  // no semicolon, and written in place
  ASSERT_TRUE(watch.prints("INCORRECT_NUMERICAL -> BUILD_ERROR")) << watch.out() << watch.err();
  save_silu(kRight);
  ASSERT_TRUE(watch.prints("BUILD_ERROR -> PASSED")) << watch.out() << watch.err();
  write("L1/notes.txt", "nothing to judge");
  Outcome o = watch.end();
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_LT(o.seconds_to_end, kAtOnceSeconds);
  EXPECT_EQ(o.err, "");
}

TEST_F(Loop, WatchingSaysWhatItDoesNotTake) {
  write_silu(kRight);
  for (const Arguments& more : std::vector<Arguments>{{"--watch", "--json"}, {"--watch", "--self-test"}}) {
    Outcome o = run_program(arguments(more));
    EXPECT_EQ(o.exit_code, 2) << o.out;
    EXPECT_NE(o.err.find("--watch"), std::string::npos) << o.err;
  }
}

TEST_F(Loop, SlowRowsArePrintedAsTheyFinish) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  write_silu(kRight);
  // On a busy machine it may be over before this process gets to see its first row.
  for (int attempt = 0; attempt < 10; ++attempt) {
    RunningProgram running(arguments({"--check", "--filter", "tiny-llama/tp1"}));
    ASSERT_TRUE(running.prints("PASSED")) << running.out() << running.err();
    if (running.out().find("passed;") == std::string::npos) return;
  }
  FAIL() << "all at once";
}

TEST_F(Loop, SlowTheTableFitsATerminalOf80Columns) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  write_silu(kRight);
  unsetenv("NO_COLOR");
  setenv("TERM", "xterm", 1);
  Outcome o = run_program_on_terminal(arguments({"--filter", "=tiny-llama/tp1/decode-8"}), 80, true);
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_NE(o.err.find("\033[32mPASSED\033[0m"), std::string::npos) << o.err;
  EXPECT_EQ(o.err.find("100 %\r"), std::string::npos) << o.err;
  std::istringstream lines(o.err);
  bool in_table = false;
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, line.rfind("\033[K") == std::string::npos ? 0 : line.rfind("\033[K") + 3);  // progress, wiped
    for (size_t at = line.find('\033'); at != std::string::npos; at = line.find('\033'))
      line.erase(at, line.find('m', at) + 1 - at);
    in_table = (in_table || line.starts_with("SCENARIO")) && line.find(" passed") == std::string::npos;
    if (in_table) {
      EXPECT_LE(line.size(), 81u) << line;  // with the carriage return
    }
  }
}

TEST_F(Loop, SlowTheIntervalIsTwoColumnsOfCsv) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  write_silu(kRight);
  auto records = parse_csv(kernels({"--filter", "=tiny-llama/tp1/decode-8", "--csv"}).out);
  ASSERT_EQ(records.size(), 2u);
  auto column = [&](const char* key) {
    auto at = std::find(records[0].begin(), records[0].end(), key);
    return at == records[0].end() ? "missing" : records[1][static_cast<size_t>(at - records[0].begin())];
  };
  EXPECT_EQ(column("verdict"), "PASSED");
  if (column("speedup").empty()) GTEST_SKIP() << "the machine is too busy to time anything";
  EXPECT_LE(std::stod(column("speedup_low")), std::stod(column("speedup")));
  EXPECT_GE(std::stod(column("speedup_high")), std::stod(column("speedup")));
}

TEST_F(Loop, AFilterCanBeExact) {
  auto listed = [](const std::string& filter) {
    return run_program(
        {"kernels", "--list", "--model", "tiny-llama", "--target", "silu_and_mul", "--filter", filter, "--csv"});
  };
  Outcome one = listed("=tiny-llama/tp1/decode-1");
  EXPECT_EQ(parse_csv(one.out).size(), 2u) << one.out << one.err;
  EXPECT_EQ(listed("=decode-1").exit_code, 1);
  EXPECT_EQ(listed("=").exit_code, 1);
}

TEST_F(Loop, SlowABusyMachineIsSaidBeforeAnythingIsTimed) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  write_silu(kRight);
  // They take every core that is idle and leave it to anything else that wants to run.
  std::atomic<bool> stop = false;
  std::vector<std::thread> others;
  for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i)
    others.emplace_back([&] {
      setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);
      while (!stop) continue;
    });
  Outcome o = kernels({"--filter", "=tiny-llama/tp1/decode-8"}, {"--num-runs", "5", "--launches", "1"});
  Outcome quiet = kernels({"--filter", "=tiny-llama/tp1/decode-8", "--quiet"}, {"--num-runs", "5", "--launches", "1"});
  stop = true;
  for (std::thread& t : others) t.join();
  EXPECT_NE(o.err.find("cores busy"), std::string::npos) << o.err;
  EXPECT_EQ(quiet.err, "");
  EXPECT_NE(result()["load"]["warning"], "");
}

}  // namespace
}  // namespace fk
