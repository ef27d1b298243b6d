// The answers of the API over a real store.
#include "web/api.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/track/store_fixture.h"
#include "tests/web/sample_history.h"
#include "web/web.h"

namespace fk {
namespace {

constexpr int64_t kNow = 1'800'000'000'000'000;

class Api : public testing::Test {
 protected:
  void SetUp() override {
    store_ = open_store(folder_.db());
    fill_history(*store_, {.runs = 8, .samples = 20}, kNow);
  }
  Json ask(const std::string& path) {
    auto json = api_answer(*store_, path);
    EXPECT_TRUE(json) << path;
    return json.value_or(Json());
  }

  StoreFolder folder_;
  std::unique_ptr<Store> store_;
};

TEST_F(Api, OverviewHasRegressionsWithTheirCommits) {
  Json overview = ask("/api/overview");
  EXPECT_EQ(overview["runs_total"], 8 + 3 + 2 + 1 + 1);  // kernels, every third with ttft, e2e, eval, hostile
  std::map<std::string, int> kinds;
  Json both = overview["regressions"];
  for (const Json& r : overview["changes"]) both.push_back(r);
  for (const Json& r : both) {
    ++kinds[fmt::format("{} {} {}", r["op"].get<std::string>(), r["kind"].get<std::string>(),
                        r["unlike"].get<std::string>())];
    EXPECT_FALSE(r["good_commit"].get<std::string>().empty());
    EXPECT_FALSE(r["bad_commit"].get<std::string>().empty());
    EXPECT_NE(r["good_run"], r["bad_run"]);
  }
  EXPECT_EQ(kinds,
            (std::map<std::string, int>{{"silu_and_mul slower another candidate", 15}, {"softmax incorrect ", 3}}));
  EXPECT_EQ(overview["regressions"][0]["kind"], "incorrect") << "wrong comes first";
  EXPECT_GE(overview["series"].get<int>(), 60);
}

// A path is compared with itself on equal work: slower beyond its samples and 5 %, or failing where it ran.
TEST_F(Api, OverviewHasModelsThatBecameSlower) {
  auto listed = [&] {
    std::map<std::string, std::string> found;
    for (Json answer = ask("/api/overview"); const Json& r : answer["model_regressions"])
      found[r["model"].get<std::string>() + " " + r["path"].get<std::string>() + " " + r["metric"].get<std::string>()] =
          r["kind"];
    return found;
  };
  std::map<std::string, std::string> before = listed();
  auto add = [&](const std::string& id, int64_t time_us, double ttft_ms, int64_t prompt_tokens) {
    store_->begin_run(sample_run(id, time_us));
    TtftRecord t;
    t.run_id = id;
    t.path = "eager";
    t.model = "one";
    t.prompt_tokens = prompt_tokens;
    t.ttft_ms = ttft_ms;
    t.samples["prefill"] = Json::array({ttft_ms * 0.99, ttft_ms, ttft_ms * 1.01});
    store_->add_ttft_result(t);
  };
  add("a", kNow + 1, 100, 64);
  add("b", kNow + 2, 104, 64);
  EXPECT_EQ(listed(), before) << "4 % is the mood of a machine";
  add("c", kNow + 3, 300, 512);
  EXPECT_EQ(listed(), before) << "more work is no regression";
  add("d", kNow + 4, 120, 64);
  std::map<std::string, std::string> after = listed();
  EXPECT_EQ(after["one eager ttft_ms"], "slower");
  EXPECT_EQ(after.size(), before.size() + 1);
  for (Json answer = ask("/api/overview"); const Json& r : answer["model_regressions"]) {
    if (r["model"] != "one") continue;
    EXPECT_EQ(r["good_run"], "a");
    EXPECT_EQ(r["bad_run"], "b") << "the fall began there";
    EXPECT_NEAR(r["before"].get<double>(), 100, 1e-9);
    EXPECT_NEAR(r["after"].get<double>(), 120, 1e-9);
  }
}

TEST_F(Api, BestIsCorrect) {
  for (Json answer = ask("/api/overview"); const Json& b : answer["best"]) {
    ASSERT_TRUE(b["speedup"].is_number()) << b;
    Json run = ask("/api/run/" + b["run_id"].get<std::string>());
    for (const Json& r : run["results"])
      if (r["op"] == b["op"]) {
        EXPECT_EQ(r["verdict"], "PASSED");
      }
    EXPECT_EQ(b["confirmed"], "yes");
    EXPECT_GT(b["low"].get<double>(), 1);
    EXPECT_FALSE(b["strip"].empty());
  }
}

// Two easy scenarios with a large gain, measured last: their mean is not compared with means over more scenarios.
TEST_F(Api, MeansOverOtherScenariosAreNotCompared) {
  RunRecord few = sample_run("20990101-000000-000000-00000000", kNow + 1);
  store_->begin_run(few);
  store_->add_kernel_result(sample_result(few.id, "rms_norm", "easy", 9), sample_detail());
  for (Json answer = ask("/api/overview"); const Json& b : answer["best"]) {
    if (b["op"] != "rms_norm") continue;
    EXPECT_EQ(b["strip"].size(), 1u);
    EXPECT_TRUE(b["speedup"].is_null()) << "it was not confirmed, and the others are over other scenarios";
  }
  Json page = ask("/api/operator/rms_norm");
  EXPECT_EQ(page["groups"][0]["timed"], 1);
  EXPECT_EQ(page["groups"][0]["runs"], 1);
  EXPECT_EQ(page["runs"][0]["run_id"], few.id);
  EXPECT_EQ(page["runs"][1]["group"], 1);
}

TEST_F(Api, ATimeThatRanksNothingIsNoFailure) {
  RunRecord noisy = sample_run("20990101-000000-000000-00000000", kNow + 1);
  store_->begin_run(noisy);
  KernelRecord k = sample_result(noisy.id, "argmax", "a", 0.4);
  k.invalid = "The baseline differs from itself by 2.93 %.";
  store_->add_kernel_result(k, sample_detail());
  Json run = ask("/api/operator/argmax")["runs"][0];
  EXPECT_EQ(run["verdict"], "NOT TIMED");
  EXPECT_TRUE(run["speedup"].is_null());
  EXPECT_EQ(run["failed"], 0);
}

TEST_F(Api, ModelsShowTheLargestBudgetOfTheNewestRun) {
  for (Json answer = ask("/api/overview"); const Json& m : answer["models"])
    if (m["path"] == "compiled") {
      EXPECT_EQ(m["search_iters"], 500);
    }
}

TEST_F(Api, OperatorsKnowTheirSources) {
  Json page = ask("/api/operator/rms_norm");
  EXPECT_EQ(page["level"], 1);
  EXPECT_EQ(page["runs"].size(), 9u);
  ASSERT_EQ(page["sources"].size(), 3u);
  int runs = 0;
  for (const Json& s : page["sources"]) {
    runs += s["runs"].get<int>();
    EXPECT_NE(ask("/api/source/" + s["sha256"].get<std::string>())["text"].get<std::string>().find("rms_norm"),
              std::string::npos);
  }
  EXPECT_EQ(runs, 8);
}

TEST_F(Api, SelfTestsAreNoCandidates) {
  RunRecord self = sample_run("20990101-000000-000000-00000000", kNow + 1);
  store_->begin_run(self);
  KernelRecord k = sample_result(self.id, "rms_norm", "llama-3.2-1b/tp1/decode-8/layer", 0.5);
  k.candidate = "baseline";
  store_->add_kernel_result(k, sample_detail());
  EXPECT_EQ(ask("/api/operator/rms_norm")["runs"].size(), 9u);
  for (Json answer = ask("/api/overview"); const Json& r : answer["regressions"]) EXPECT_NE(r["op"], "rms_norm");
}

TEST_F(Api, RunsComeWithEverything) {
  Json runs = ask("/api/runs");
  EXPECT_EQ(runs["total"], runs["runs"].size());
  std::string id = runs["runs"][0]["id"];
  Json run = ask("/api/run/" + id);
  EXPECT_EQ(run["results"].size(), 60u);
  EXPECT_EQ(run["artifacts"].size(), 5u);
  EXPECT_EQ(run["run"]["environment"]["compiler"], "g++ 12.2.0");
  EXPECT_EQ(run["run"]["params"]["threads"], "2");
  Json samples = ask("/api/samples/" + id + "/rms_norm/llama-3.2-1b/tp1/decode-8/layer");
  EXPECT_EQ(samples["samples"].size(), 10u);
  EXPECT_EQ(samples["control_samples"].size(), 10u);
}

TEST_F(Api, SaysNothingOfWhatIsNotThere) {
  for (const char* path : {"/api/run/none", "/api/none", "/api/", "/api/samples/a/b", "/api/samples/a/b/c",
                           "/api/source/..", "/api/source/../../etc/passwd", "/other"})
    EXPECT_FALSE(api_answer(*store_, path)) << path;
  EXPECT_EQ(ask("/api/operator/none")["runs"].size(), 0u);
  EXPECT_EQ(ask("/api/model/none")["rows"].size(), 0u);
}

TEST_F(Api, StampFollowsTheHistory) {
  Json before = ask("/api/state");
  EXPECT_EQ(ask("/api/state"), before);
  store_->set_tags(ask("/api/runs")["runs"][0]["id"].get<std::string>(), {{"note", "x"}});
  EXPECT_NE(ask("/api/state"), before);
}

TEST_F(Api, AnEmptyHistoryIsAnAnswer) {
  auto empty = open_store((folder_ / "empty.db").string());
  Json overview = *api_answer(*empty, "/api/overview");
  EXPECT_EQ(overview["runs_total"], 0);
  EXPECT_TRUE(overview["best"].empty());
  EXPECT_NE(dashboard_file(*empty, 10).find("fk-data"), std::string::npos);
}

TEST_F(Api, FilesCarryWhatTheirPagesAskFor) {
  std::string page = dashboard_file(*store_, 2);
  size_t begin = page.find('>', page.find("id=\"fk-data\"")) + 1;
  Json data = Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  EXPECT_TRUE(data.contains("/api/overview"));
  EXPECT_TRUE(data.contains("/api/operator/rms_norm"));
  EXPECT_TRUE(data.contains("/api/model/llama-3.2-1b"));
  for (const Json& r : data["/api/overview"]["regressions"])
    EXPECT_TRUE(data.contains("/api/run/" + r["good_run"].get<std::string>()));
  int samples = 0;
  for (const auto& [path, value] : data.items()) samples += path.starts_with("/api/samples/");
  EXPECT_GE(samples, 60);  // of the one kernel run among the newest two, and of what did not pass elsewhere
}

TEST_F(Api, ReportsAreOfOneRun) {
  EXPECT_ANY_THROW(report_file(*store_, "none"));
  std::string id = ask("/api/runs")["runs"][0]["id"];
  std::string page = report_file(*store_, id);
  EXPECT_NE(page.find("#/report/" + id), std::string::npos);
  EXPECT_NE(page.find("/api/samples/" + id), std::string::npos);
}

}  // namespace
}  // namespace fk
