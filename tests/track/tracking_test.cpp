// The public tracking API: what is logged is found, the scope ends the run, and nothing it does stops a program.
#include <fastkernels/tracking.h>
#include <gmock/gmock.h>
#include <stdlib.h>

#include <cmath>
#include <stdexcept>

#include "tests/track/store_fixture.h"

namespace fk {
namespace {

using testing::HasSubstr;

class TrackingTest : public testing::Test {
 protected:
  tracking::Options options() const {
    tracking::Options o;
    o.db = folder_.db();
    o.journal = folder_ / "run.jsonl";
    return o;
  }
  std::vector<tracking::FoundRun> query(const std::string& filter) const {
    return tracking::query_runs("fastkernels", filter, 10, folder_.db());
  }
  StoreFolder folder_;
};

TEST_F(TrackingTest, EverythingLoggedIsFound) {
  std::string id;
  {
    tracking::Run run = tracking::start_run("mine", {{"a", "1"}}, {{"who", "me"}}, options());
    id = run.id();
    run.log_kernel("rms_norm", 1, "int x;\n");
    tracking::KernelBenchResult r;
    r.op = "rms_norm";
    r.scenario = "small";
    r.speedup = 2;
    r.low = 1.9;
    r.high = 2.1;
    run.log_kernel_bench(r);
    r.scenario = "large";
    r.speedup = 8;
    run.log_kernel_bench(r);
    tracking::EvalReport report;
    report.macro_score = 1.3125;
    report.more["alignment_rate"] = 0.5;
    run.log_eval(report);
    run.log_e2e({{"tokens_per_second", 100}}, "throughput");
    run.log_metrics({{"loss", 3}}, 0);
    run.log_metrics({{"loss", 2}}, 1);
    tracking::Run moved = std::move(run);
    EXPECT_EQ(moved.id(), id);
  }
  std::vector<tracking::FoundRun> found = query("metrics.rms_norm_avg_speedup > 3.9 and tags.who = 'me'");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].id, id);
  EXPECT_EQ(found[0].status, "finished");
  EXPECT_NEAR(found[0].metrics["rms_norm_avg_speedup"], 4.0, 1e-9);
  EXPECT_EQ(found[0].metrics["macro_score"], 1.3125);
  EXPECT_EQ(found[0].metrics["loss"], 2);
  EXPECT_EQ(found[0].metrics["total_passed"], 2);
  EXPECT_EQ(found[0].tags["tier"], "kernel");
  EXPECT_EQ(found[0].params["a"], "1");
  auto store = open_store(folder_.db());
  EXPECT_EQ(store->artifact(store->operator_results(id).at(0).source_sha256), "int x;\n");
  EXPECT_EQ(store->operator_history("rms_norm", {}).at(0).run_id, id);
  EXPECT_TRUE(query("metrics.rms_norm_avg_speedup > 4.1").empty());
  EXPECT_THROW(query("metrics.a >"), std::runtime_error);
}

TEST_F(TrackingTest, AnExceptionSurvivesItsRun) {
  std::string id;
  try {
    tracking::Run run = tracking::start_run("mine", {}, {}, options());
    id = run.id();
    throw std::logic_error("the real one");
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "the real one");
  }
  EXPECT_EQ(open_store(folder_.db())->run(id)->status, "failed");
}

TEST_F(TrackingTest, NothingLoggedWrongStopsTheProgram) {
  testing::internal::CaptureStderr();
  {
    tracking::Run run = tracking::start_run("", {}, {}, options());
    run.log_metrics({{"good", 1}, {"bad", std::nan("")}});
    run.log_kernel_bench({});
    run.log_artifact("x", std::string("\xff\0", 2));
    run.end("sideways");
    run.end();
    run.log_metrics({{"late", 1}});
  }
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("'bad' is not finite"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  ASSERT_EQ(query("metrics.good = 1").size(), 1u);
  EXPECT_TRUE(query("metrics.late is not null").empty());
}

TEST_F(TrackingTest, WithoutAStoreTheRunGoesIntoItsJournal) {
  testing::internal::CaptureStderr();
  tracking::Options o = options();
  o.db = "/proc/none/history.db";
  { tracking::start_run("mine", {}, {}, o).log_metrics({{"a", 1}}); }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("run.jsonl"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run.jsonl"));
}

TEST_F(TrackingTest, TheExampleProgramDoesAsItSays) {
  std::string command = "FASTKERNELS_HOME=" + (folder_ / "home").string() +
                        " " FK_BINARY_DIR "/examples/track_a_run > " + (folder_ / "out").string();
  ASSERT_EQ(system(command.c_str()), 0);
  auto store = open_store(folder_ / "home/history.db");
  std::vector<RunRecord> runs = store->runs({});
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].name, "example: row sums");
  EXPECT_EQ(runs[0].status, "finished");
  EXPECT_EQ(store->metric_points(runs[0].id, "plain_ns").size(), 3u);
  EXPECT_GT(*store->operator_results(runs[0].id).at(0).speedup, 0);
}

}  // namespace
}  // namespace fk
