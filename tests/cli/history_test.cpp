// `history` from the user's view, on stores with known runs.
#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "core/json.h"
#include "tests/cli/csv.h"
#include "tests/cli/program.h"
#include "tests/track/store_fixture.h"

namespace fk {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class HistoryVerb : public testing::Test {
 protected:
  void SetUp() override {
    if (!store_unavailable().empty()) GTEST_SKIP() << store_unavailable();
    auto store = open_store(folder_.db());
    add(*store, "20270101-000000-000001-aaaaaaaa", 1, 1.5, "int before;\n");
    add(*store, "20270102-000000-000002-bbbbbbbb", 2, 1.52, "int before;\nint more;\n");
    add(*store, "20270103-000000-000003-cccccccc", 3, 3.0, "int after;\nint more;\n");
    RunRecord wrong = sample_run("20270104-000000-000004-dddddddd", day(4));
    wrong.name = "kernels rms_norm, wrong";
    store->begin_run(wrong);
    store->add_kernel_result(sample_result(wrong.id, "rms_norm", "a", 0, "INCORRECT_NUMERICAL"), row_detail("a", 0));
    store->end_run(wrong.id, "failed", "1 of 1 scenarios did not pass.", day(4) + 1'500'000);
  }
  static int64_t day(int d) { return 1'798'675'200'000'000 + d * 86'400'000'000; }
  static KernelDetail row_detail(const std::string& scenario, double speedup) {
    KernelDetail d = sample_detail();
    d.detail = {{"operator", "rms_norm"},
                {"scenario", scenario},
                {"verdict", "PASSED"},
                {"workload", {{"dtype", "bf16"}}},
                {"timing", {{"speedup", speedup}}}};
    return d;
  }
  static void add(Store& store, const std::string& id, int d, double speedup, const std::string& source) {
    RunRecord r = sample_run(id, day(d));
    r.params["num_runs"] = std::to_string(100 * d);
    r.metrics = {{"avg_speedup", speedup}, {"rms_norm_avg_speedup", speedup}, {"total_passed", 1}, {"total_failed", 0}};
    store.begin_run(r);
    store.add_kernel_result(sample_result(id, "rms_norm", "a", speedup), row_detail("a", speedup));
    store.add_artifact(id, "kernels/rms_norm.cpp", source);
    store.end_run(id, "finished", "", day(d) + 1'500'000);
  }
  void confirm(const std::string& id) const {
    auto store = open_store(folder_.db());
    OperatorRecord o = store->operator_results(store->resolve_run(id)).at(0);
    o.confirmed = "yes";
    store->set_operator(o);
  }
  Outcome history(Arguments more) const {
    more.insert(more.begin(), {"history", "--db", folder_.db()});
    return run_program(more);
  }

  StoreFolder folder_;
};

TEST_F(HistoryVerb, ListsTheNewestRunsFirst) {
  Outcome o = history({"--limit", "2"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("TIMESTAMP"));
  EXPECT_THAT(o.out, HasSubstr("KEY METRICS"));
  EXPECT_LT(o.out.find("dddddddd"), o.out.find("cccccccc")) << o.out;
  EXPECT_THAT(o.out, HasSubstr("0 passed, 1 failed"));
  EXPECT_THAT(o.out, HasSubstr("avg_speedup 3.000x, 1 passed, 0 failed"));
  EXPECT_THAT(o.out, Not(HasSubstr("bbbbbbbb")));
  Json list = Json::parse(history({"--json"}).out);
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[1]["metrics"]["avg_speedup"], 3.0);
  EXPECT_EQ(list[1]["params"]["num_runs"], "300");
  auto csv = parse_csv(history({"--csv"}).out);
  ASSERT_EQ(csv.size(), 5u);
  EXPECT_EQ(csv[0][0], "timestamp");
  EXPECT_EQ(csv[1][7], "20270104-000000-000004-dddddddd");
  EXPECT_EQ(csv[0][3], "verdict");
  EXPECT_EQ(csv[1][3], "FAILED");
  EXPECT_EQ(csv[2][3], "FASTER");
  EXPECT_EQ(list[1]["verdict"], "FASTER");
  EXPECT_EQ(list[1]["operators"][0]["candidate"], "abc");
}

TEST_F(HistoryVerb, SelectsByEveryFlag) {
  auto count = [&](Arguments more) {
    more.emplace_back("--json");
    Outcome o = history(more);
    EXPECT_EQ(o.exit_code, 0) << o.err;
    return Json::parse(o.out).size();
  };
  EXPECT_EQ(count({"--where", "metrics.avg_speedup > 1.51 and tags.tier = \"kernel\""}), 2u);
  EXPECT_EQ(count({"--where", "status = 'FAILED'"}), 1u);
  EXPECT_EQ(count({"--since", "2027-01-03"}), 2u);
  EXPECT_EQ(count({"--since", "2027-01-03 00:00:01"}), 1u);
  EXPECT_EQ(count({"--model", "llama"}), 4u);
  EXPECT_EQ(count({"--model", "qwen"}), 0u);
  EXPECT_EQ(count({"--device", "cpu"}), 4u);
  EXPECT_EQ(count({"--device", "H200"}), 0u);
  EXPECT_EQ(count({"--search", "wrong"}), 1u);
  EXPECT_EQ(count({"--op", "rms_norm", "--limit", "3"}), 3u);
  EXPECT_EQ(count({"--limit", "-1", "--offset", "1"}), 3u);
}

TEST_F(HistoryVerb, OneOperatorAndTheBest) {
  Outcome op = history({"--op", "rms_norm"});
  for (const char* title : {"TIMESTAMP", "RUN NAME", "SPEEDUP", "PASS", "ERR_RATIO", "RUN ID"})
    EXPECT_THAT(op.out, HasSubstr(title));
  EXPECT_THAT(op.out, HasSubstr("0/1"));
  EXPECT_THAT(history({"--best"}).out, HasSubstr("No best yet")) << "nothing was confirmed";
  EXPECT_EQ(history({"--best", "--json"}).out, "[]\n");
  for (const char* id : {"bbbb", "cccc"}) confirm(id);
  Outcome best = history({"--best"});
  EXPECT_THAT(best.out, HasSubstr("3.000x"));
  EXPECT_THAT(best.out, HasSubstr("2.940 .. 3.060"));
  EXPECT_THAT(best.out, HasSubstr("cccccccc"));
  EXPECT_THAT(best.out, Not(HasSubstr("dddddddd")));
  EXPECT_EQ(parse_json(history({"--best", "--json"}).out, "best")[0]["confirmed"], "yes");
  EXPECT_THAT(history({"--best", "--where", "metrics.avg_speedup < 2"}).out, HasSubstr("bbbbbbbb"));
}

TEST_F(HistoryVerb, FindsRunsByNameAndTag) {
  auto store = open_store(folder_.db());
  RunRecord r = sample_run("tagged", day(5));
  r.name = "four rows at once";
  r.tags["keep"] = "true";
  store->begin_run(r);
  EXPECT_EQ(Json::parse(history({"--name", "ROWS", "--json"}).out).size(), 1u);
  EXPECT_EQ(Json::parse(history({"--tag", "keep=true", "--json"}).out).size(), 1u);
  EXPECT_EQ(Json::parse(history({"--tag", "keep=false", "--json"}).out).size(), 0u);
}

TEST_F(HistoryVerb, RunsOverOtherScenariosStandApart) {
  auto store = open_store(folder_.db());
  RunRecord r = sample_run("few", day(5));
  r.params["filter"] = "decode-1";
  store->begin_run(r);
  store->add_kernel_result(sample_result("few", "rms_norm", "easy", 9), row_detail("easy", 9));
  KernelRecord noisy = sample_result("few", "softmax", "a", 9);
  noisy.invalid = "too noisy";
  store->add_kernel_result(noisy, row_detail("a", 9));
  std::string out = history({"--op", "rms_norm"}).out;
  EXPECT_LT(out.find("few"), out.find("\nMean of 1 scenario (")) << out;
  EXPECT_THAT(out, HasSubstr("decode-1"));
  out = history({"--op", "softmax"}).out;
  EXPECT_THAT(out, HasSubstr("NOT TIMED"));
  EXPECT_THAT(out, HasSubstr("1/1"));
  EXPECT_THAT(history({"--limit", "1"}).out, HasSubstr("2 passed, 0 failed, 1 not timed"));
  auto csv = parse_csv(history({"--op", "softmax", "--csv"}).out);
  auto at = [&](const char* key) { return csv[1][std::find(csv[0].begin(), csv[0].end(), key) - csv[0].begin()]; };
  EXPECT_EQ(at("speedup"), "") << "unknown, never zero";
  EXPECT_EQ(at("low"), "");
  EXPECT_EQ(at("verdict"), "NOT TIMED");
  EXPECT_EQ(at("filter"), "decode-1");
}

TEST_F(HistoryVerb, ShowsOneRun) {
  Outcome o = history({"show", "cccc"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  for (const char* words : {"20270103-000000-000003-cccccccc", "finished", "took 1.5 s", "num_runs  300", "PASSED",
                            "kernels/rms_norm.cpp", "Test CPU", "0123456789ab"})
    EXPECT_THAT(o.out, HasSubstr(words));
  EXPECT_EQ(history({"show", "cccc", "--artifact", "kernels/rms_norm.cpp"}).out, "int after;\nint more;\n");
  Json json = Json::parse(history({"show", "last", "--json"}).out);
  EXPECT_EQ(json["run"]["error"], "1 of 1 scenarios did not pass.");
  EXPECT_EQ(json["results"][0]["verdict"], "INCORRECT_NUMERICAL");
  EXPECT_EQ(json["run"]["environment"]["cores"], 2);
}

TEST_F(HistoryVerb, ShowSaysWhyATimingRanksNothing) {
  auto store = open_store(folder_.db());
  store->begin_run(sample_run("noisy", day(5)));
  KernelRecord noisy = sample_result("noisy", "rms_norm", "a", 1.2);
  noisy.invalid = "The baseline differs from itself by 2.93 %.";
  store->add_kernel_result(noisy, row_detail("a", 1.2));
  EXPECT_THAT(history({"show", "noisy"}).out, HasSubstr("rms_norm a: The baseline differs from itself by 2.93 %."));
}

TEST_F(HistoryVerb, DiffTellsNoiseFromChange) {
  Outcome o = history({"diff", "aaaa", "cccc"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("num_runs: 100 -> 300"));
  EXPECT_THAT(o.out, HasSubstr("+100.0 %  beyond noise"));
  EXPECT_THAT(o.out, HasSubstr("-int before;\n+int after;\n+int more;\n"));
  Outcome small = history({"diff", "aaaa", "bbbb"});
  EXPECT_THAT(small.out, HasSubstr("+1.3 %  within noise"));
  EXPECT_THAT(small.out, Not(HasSubstr("beyond noise")));
  Json json = Json::parse(history({"diff", "aaaa", "dddd", "--json"}).out);
  EXPECT_EQ(json["scenarios"][0]["before_verdict"], "PASSED");
  EXPECT_EQ(json["scenarios"][0]["after_verdict"], "INCORRECT_NUMERICAL");
  EXPECT_TRUE(json["scenarios"][0]["after"].is_null());
}

TEST_F(HistoryVerb, RemovesWhatItIsTold) {
  EXPECT_EQ(history({"rm", "aaaa", "nothing"}).exit_code, 1);
  EXPECT_EQ(Json::parse(history({"--json"}).out).size(), 4u) << "removed although one of the names was wrong";
  EXPECT_EQ(history({"rm", "aaaa", "bbbb"}).exit_code, 0);
  EXPECT_EQ(Json::parse(history({"--json"}).out).size(), 2u);
}

TEST_F(HistoryVerb, ExportsAndImports) {
  std::string file = folder_ / "all.jsonl", other = folder_ / "other.db";
  ASSERT_EQ(history({"export", "--out", file}).exit_code, 0);
  Outcome first = run_program({"history", "--db", other, "import", file});
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("4 runs added, 0 known already"));
  EXPECT_THAT(run_program({"history", "--db", other, "import", file}).out, HasSubstr("0 runs added, 4 known already"));
  EXPECT_EQ(run_program({"history", "--db", other, "--json"}).out, history({"--json"}).out);
  EXPECT_EQ(run_program({"history", "--db", other, "export"}).out, history({"export"}).out);
  auto rows = parse_csv(history({"export", "--csv"}).out);
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[0][2], "operator");
  EXPECT_EQ(parse_csv(history({"export", "--csv", "--table", "metrics"}).out).size(), 13u);
  EXPECT_EQ(parse_csv(history({"export", "--csv", "--table", "runs", "--since", "2027-01-04"}).out).size(), 2u);
}

TEST_F(HistoryVerb, BadInputIsOneSentence) {
  auto expect = [&](const Arguments& more, int code, std::string_view words) {
    Outcome o = history(more);
    EXPECT_EQ(o.exit_code, code) << o.err;
    EXPECT_THAT(o.err, HasSubstr(std::string(words)));
    EXPECT_EQ(o.out, "");
  };
  expect({"--where", "metrics.a > 1 or metrics.b > 2"}, 2, "column 15: there is no OR");
  expect({"--since", "tomorrow"}, 2, "'tomorrow' is no time");
  expect({"--since", "2027-02-30"}, 2, "no time");
  expect({"--limit", "x"}, 2, "--limit");
  expect({"--op", "rms_nrom"}, 1, "did you mean rms_norm?\n");  // and no advice to run `kernels` for it
  expect({"show", "2027"}, 1, "several runs");
  expect({"show", "nothing"}, 1, "has the id or the name 'nothing'");
  expect({"show", "cccc", "--artifact", "none"}, 1, "no artifact none");
  expect({"diff", "aaaa"}, 2, "runs");
  expect({"import", folder_ / "none.json"}, 1, "cannot be read");
  expect({"export", "--out", "/proc/none"}, 1, "cannot be written");
  Outcome none = run_program({"history", "--db", folder_ / "none.db"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("There is no history at"));
  EXPECT_FALSE(fs::exists(folder_ / "none.db")) << "looking made a file";
}

// End to end: a run is stored automatically, or written to a journal if that fails, and imported from there.
TEST_F(HistoryVerb, SlowARunOfKernelsIsInTheHistory) {
  std::string result = folder_ / "result.json", db = folder_ / "runs.db";
  Arguments kernels = {"kernels",    "--self-test", "--target",      "silu_and_mul",
                       "--model",    "tiny-llama",  "--filter",      "tiny-llama/tp1/decode-8",
                       "--threads",  "1",           "--num-runs",    "10",
                       "--launches", "2",           "--output-json", result};
  auto with = [&](Arguments more) {
    Arguments all = kernels;
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  };
  auto runs = [&](const std::string& path) {
    return Json::parse(run_program({"history", "--db", path, "--json"}).out);
  };
  ASSERT_EQ(with({"--db", db}).exit_code, 0);
  ASSERT_EQ(runs(db).size(), 1u);
  EXPECT_EQ(runs(db)[0]["status"], "finished");
  EXPECT_EQ(runs(db)[0]["mode"], "self-test");
  EXPECT_EQ(runs(db)[0]["metrics"]["silu_and_mul_passed"], 1.0);
  EXPECT_FALSE(fs::exists(result + "l"));
  // The result file is the same run: known already here, new elsewhere.
  EXPECT_THAT(run_program({"history", "--db", db, "import", result}).out, HasSubstr("0 runs added, 1 known"));
  EXPECT_THAT(run_program({"history", "--db", folder_ / "b.db", "import", result}).out, HasSubstr("1 run added"));
  EXPECT_EQ(runs(folder_ / "b.db")[0]["metrics"], runs(db)[0]["metrics"]);
  EXPECT_EQ(runs(folder_ / "b.db")[0]["run_id"], runs(db)[0]["run_id"]);

  ASSERT_EQ(with({"--db", db, "--no-history"}).exit_code, 0);
  EXPECT_EQ(runs(db).size(), 1u);

  Outcome lost = with({"--db", "/proc/none/history.db"});
  EXPECT_EQ(lost.exit_code, 0) << lost.err;
  // Said once; a busy machine may add its own warning.
  EXPECT_EQ(lost.err.find("/proc/none/history.db"), lost.err.rfind("/proc/none/history.db")) << lost.err;
  EXPECT_THAT(lost.err, HasSubstr("/proc/none/history.db"));
  EXPECT_THAT(lost.err, HasSubstr(result + "l"));
  EXPECT_THAT(run_program({"history", "--db", db, "import", result + "l", result}).out,
              HasSubstr("result.jsonl: 1 run added, 0 known already\n" + result + ": 0 runs added, 1 known"));
  EXPECT_EQ(runs(db).size(), 2u);
}

TEST_F(HistoryVerb, SlowARunOfTtftIsInTheHistory) {
  std::string db = folder_ / "runs.db";
  Outcome o = run_program({"ttft", "--model", "tiny-llama", "--load-format", "dummy", "--no-candidate-kernels",
                           "--prompt-tokens", "8", "--decode-tokens", "3", "--iters", "2", "--db", db});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  Json run = Json::parse(run_program({"history", "--db", db, "show", "last", "--json"}).out);
  EXPECT_EQ(run["run"]["tier"], "ttft");
  EXPECT_EQ(run["run"]["status"], "finished");
  ASSERT_EQ(run["ttft"].size(), 1u);
  EXPECT_EQ(run["ttft"][0]["path"], "eager");
  EXPECT_EQ(run["ttft"][0]["samples"]["prefill"].size(), 2u);
  EXPECT_GT(run["ttft"][0]["tpot_ms"].get<double>(), 0);
  EXPECT_EQ(run["run"]["metrics"]["tpot_ms"], run["ttft"][0]["tpot_ms"]);
}

}  // namespace
}  // namespace fk
