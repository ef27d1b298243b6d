// Processes that are killed at any time, and several that write at once: the store keeps every row it has confirmed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

#include "tests/track/store_fixture.h"
#include "track/sqlite/database.h"

namespace fk {
namespace {

struct Writer {
  pid_t pid = 0;
  int out = -1;

  static Writer start(const std::string& db, const std::string& run, const std::string& count) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    Writer w;
    w.pid = fork();
    if (w.pid == 0) {
      dup2(ends[1], STDOUT_FILENO);
      close(ends[0]);
      execl(FK_BINARY_DIR "/tests/track_writer", "track_writer", db.c_str(), run.c_str(), count.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    w.out = ends[0];
    return w;
  }

  // Waits until it has reported this many stored results; reads until its end if `lines` is negative.
  int64_t said(int64_t lines = -1) {
    char c = 0;
    while ((lines < 0 || lines_ < lines) && read(out, &c, 1) == 1) lines_ += c == '\n' ? 1 : 0;
    return lines_;
  }
  int wait() const {
    int status = 0;
    waitpid(pid, &status, 0);
    close(out);
    return status;
  }

 private:
  int64_t lines_ = 0;
};

TEST(Crash, KilledAtAnyMomentLosesAtMostTheRowBeingWritten) {
  constexpr int kTimes = 200;
  StoreFolder folder;
  std::mt19937 random(20261115);
  int64_t total = 0, begun = 0;
  for (int i = 0; i < kTimes; ++i) {
    std::string run = "run" + std::to_string(i);
    Writer w = Writer::start(folder.db(), run, "1000000");
    // A quarter of them while the file is being opened, the others some moment after some row.
    if (i % 4 != 0) w.said(random() % 6);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 12'000));
    kill(w.pid, SIGKILL);
    int64_t said = w.said();
    ASSERT_TRUE(WIFSIGNALED(w.wait())) << "the writer ended by itself";
    {
      Database database(folder.db(), Database::Mode::kReadWrite);
      Statement check = database.query("PRAGMA integrity_check");
      ASSERT_TRUE(check.step());
      ASSERT_EQ(check.text(), "ok") << "after " << i;
      Statement foreign = database.query("PRAGMA foreign_key_check");
      ASSERT_FALSE(foreign.step());
    }
    auto store = open_store(folder.db());
    if (!store->run(run)) {
      ASSERT_EQ(said, 0);
      continue;
    }
    ++begun;
    auto kept = static_cast<int64_t>(store->kernel_results(run).size());
    ASSERT_GE(kept, said) << "a row it said was in is lost";
    ASSERT_LE(kept, said + 1);
    total += kept;
    for (const ArtifactRecord& a : store->artifacts(run))
      ASSERT_EQ(store->artifact(a.sha256).size(), static_cast<size_t>(a.size_bytes));
    if (kept == 0) continue;
    ASSERT_TRUE(store->kernel_detail(run, "rms_norm", "0"));
    ASSERT_TRUE(store->kernel_detail(run, "rms_norm", std::to_string(kept - 1)));
    ASSERT_EQ(store->operator_results(run).at(0).passed, kept) << "summary and rows disagree";
  }
  EXPECT_GT(begun, kTimes / 4) << "killed too early to show anything";
  EXPECT_GT(total, kTimes / 4);
  std::printf("%d kills, %d runs begun, %d rows kept\n", kTimes, static_cast<int>(begun), static_cast<int>(total));
  EXPECT_EQ(open_store(folder.db())->count_runs({}), begun) << "an earlier run is lost";
}

TEST(Crash, WritersAtOnceAllSucceed) {
  StoreFolder folder;
  std::vector<Writer> writers;
  for (int i = 0; i < 4; ++i) writers.push_back(Writer::start(folder.db(), "run" + std::to_string(i), "40"));
  for (Writer& w : writers) {
    EXPECT_EQ(w.said(), 40);
    EXPECT_EQ(w.wait(), 0);
  }
  auto store = open_store(folder.db());
  for (int i = 0; i < 4; ++i) {
    std::string run = "run" + std::to_string(i);
    EXPECT_EQ(store->kernel_results(run).size(), 40u);
    EXPECT_EQ(store->run(run)->status, "finished");
    EXPECT_EQ(store->metric_points(run, "results").size(), 40u);
  }
}

}  // namespace
}  // namespace fk
