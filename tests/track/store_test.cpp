// Everything written to the store can be read back, with every query.
#include "track/store.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "core/error.h"
#include "tests/track/store_fixture.h"
#include "track/comparable.h"
#include "track/sha256.h"

namespace fk {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> ids(const std::vector<RunRecord>& runs) {
  std::vector<std::string> list;
  for (const RunRecord& r : runs) list.push_back(r.id);
  return list;
}

template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

class StoreTest : public testing::Test {
 protected:
  StoreFolder folder_;
  std::unique_ptr<Store> store_ = open_store(folder_.db());
};

TEST(Sha256, AgreesWithPublishedVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_F(StoreTest, ARunComesBackAsItWas) {
  RunRecord r = sample_run("20270115-080000-000001-aaaaaaaa");
  r.metrics = {{"avg_speedup", 1.5}};
  store_->begin_run(r);
  std::optional<RunRecord> back = store_->run(r.id);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->name, r.name);
  EXPECT_EQ(back->status, "running");
  EXPECT_EQ(back->started_us, r.started_us);
  EXPECT_FALSE(back->ended_us);
  EXPECT_EQ(back->params, r.params);
  EXPECT_EQ(back->tags, r.tags);
  EXPECT_EQ(back->metrics, r.metrics);
  EXPECT_EQ(back->environment.git_commit, r.environment.git_commit);
  EXPECT_EQ(back->environment.details, r.environment.details);
  EXPECT_EQ(back->environment.device_name(), "Test CPU");
  store_->end_run(r.id, "failed", "1 of 2 scenarios did not pass.", r.started_us + 7);
  back = store_->run(r.id);
  EXPECT_EQ(back->status, "failed");
  EXPECT_EQ(back->error, "1 of 2 scenarios did not pass.");
  EXPECT_EQ(back->ended_us, r.started_us + 7);
  EXPECT_FALSE(store_->run("another"));
}

TEST_F(StoreTest, TheSameIdTwiceIsAnError) {
  store_->begin_run(sample_run("x"));
  RunRecord other = sample_run("x");
  other.name = "another";
  EXPECT_THAT(error_of([&] { store_->begin_run(other); }), HasSubstr("already has a run x"));
  EXPECT_EQ(store_->run("x")->name, "kernels rms_norm");
}

TEST_F(StoreTest, IdsCarryMicrosecondsAndATail) {
  EXPECT_THAT(make_run_id(1'794'727'948'953'672), testing::MatchesRegex("20261115-073228-953672-[0-9a-f]+"));
  EXPECT_NE(make_run_id(1), make_run_id(1));
  EXPECT_EQ(utc_text(1'794'727'948'953'672), "2026-11-15 07:32:28");
}

TEST_F(StoreTest, TheNewestMetricCountsAndStepsStay) {
  store_->begin_run(sample_run("x"));
  store_->log_metrics("x", {{"loss", 3, 0, 1}, {"loss", 2, 1, 2}, {"loss", 2.5, 10, 3}});
  EXPECT_EQ(store_->run("x")->metrics["loss"], 2.5);
  ASSERT_EQ(store_->metric_points("x", "loss").size(), 3u);
  EXPECT_EQ(store_->metric_points("x", "loss")[1].value, 2);
  EXPECT_THAT(error_of([&] {
                store_->log_metrics("x", {{"ok", 1, 0, 1}, {"bad", std::nan(""), 0, 1}});
              }),
              HasSubstr("bad is nan"));
  EXPECT_TRUE(store_->metric_points("x", "ok").empty()) << "half a call was kept";
}

TEST_F(StoreTest, ResultsKeepTheirOrderSamplesAndSummary) {
  store_->begin_run(sample_run("x"));
  store_->add_kernel_result(sample_result("x", "rms_norm", "b", 2.0), sample_detail());
  store_->add_kernel_result(sample_result("x", "rms_norm", "a", 0.5), sample_detail());
  std::vector<KernelRecord> results = store_->kernel_results("x");
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].scenario, "b");
  EXPECT_EQ(results[0].models, std::vector<std::string>{"llama-3.2-1b"});
  EXPECT_EQ(results[0].speedup, 2.0);
  EXPECT_FALSE(results[0].floor_ns);
  EXPECT_EQ(store_->kernel_detail("x", "rms_norm", "b")->samples, sample_detail().samples);
  EXPECT_EQ(store_->kernel_detail("x", "rms_norm", "b")->detail, sample_detail().detail);
  EXPECT_FALSE(store_->kernel_detail("x", "rms_norm", "c"));
  OperatorRecord o = store_->operator_results("x").at(0);
  EXPECT_NEAR(*o.speedup, 1.0, 1e-12);
  EXPECT_NEAR(*o.low, 0.98, 1e-12);
  EXPECT_EQ(o.worst_scenario, "a");
  EXPECT_EQ(o.passed, 2);
  EXPECT_TRUE(o.correct());
  // Measured again: it replaces, and the summary follows.
  store_->add_kernel_result(sample_result("x", "rms_norm", "a", 0, "CRASHED"), sample_detail());
  EXPECT_EQ(store_->kernel_results("x").size(), 2u);
  o = store_->operator_results("x").at(0);
  EXPECT_EQ(o.passed, 1);
  EXPECT_EQ(o.failed, 1);
  EXPECT_NEAR(*o.speedup, 2.0, 1e-12);
}

TEST_F(StoreTest, BestTakesCorrectCandidatesOnly) {
  auto add = [&](const std::string& id, const std::string& op, std::vector<KernelRecord> results) {
    RunRecord r = sample_run(id);
    store_->begin_run(r);
    for (KernelRecord& k : results) {
      k.op = op;
      k.confirmed = "yes";
      store_->add_kernel_result(k, sample_detail());
    }
  };
  add("good", "rms_norm", {sample_result("good", "", "a", 1.5)});
  add("better", "rms_norm", {sample_result("better", "", "a", 1.7), sample_result("better", "", "b", 0, "REFUSED")});
  add("half-wrong", "rms_norm",
      {sample_result("half-wrong", "", "a", 9), sample_result("half-wrong", "", "b", 0, "CRASHED")});
  KernelRecord self = sample_result("self", "", "a", 99);
  self.candidate = "baseline";
  add("self", "rms_norm", {self});
  add("wrong", "softmax", {sample_result("wrong", "", "a", 0, "INCORRECT_NUMERICAL")});
  std::vector<OperatorRecord> best = store_->best({});
  ASSERT_EQ(best.size(), 1u) << "an operator nobody got right has no best";
  EXPECT_EQ(best[0].run_id, "better");
  EXPECT_NEAR(*best[0].high, 1.7 * 1.02, 1e-9);
  RunQuery query;
  query.op = "softmax";
  EXPECT_TRUE(store_->best(query).empty());
  query.op = "rms_norm";
  query.where = "attributes.run_id = 'good'";
  EXPECT_EQ(store_->best(query).at(0).run_id, "good");
  EXPECT_EQ(store_->operators().size(), 2u);
  EXPECT_EQ(store_->operators()[0].runs, 4);
}

TEST_F(StoreTest, BestIsConfirmedAndBeyondTheBaseline) {
  auto add = [&](const std::string& id, const std::vector<std::pair<double, const char*>>& scenarios,
                 const std::string& cpu = "Test CPU") {
    RunRecord r = sample_run(id);
    r.environment.cpu_name = cpu;
    store_->begin_run(r);
    for (size_t i = 0; i < scenarios.size(); ++i) {
      KernelRecord k = sample_result(id, "rms_norm", "s" + std::to_string(i), scenarios[i].first);
      k.confirmed = scenarios[i].second;
      store_->add_kernel_result(k, sample_detail());
    }
  };
  add("lucky", {{1.9, "no"}});
  add("unknown", {{1.9, ""}});
  EXPECT_TRUE(store_->best({}).empty()) << "only what was confirmed";
  EXPECT_EQ(store_->best_speedup("rms_norm", "s0", "cpu", "Test CPU"), std::nullopt);
  add("slow", {{0.5, "yes"}});
  add("across", {{1.01, "yes"}});
  EXPECT_TRUE(store_->best({}).empty()) << "neither slower than the baseline nor an interval across 1";
  add("good", {{1.5, "yes"}, {1.4, ""}});
  EXPECT_EQ(store_->best({}).at(0).run_id, "good");
  EXPECT_EQ(store_->best({}).at(0).confirmed, "yes");
  add("half", {{1.8, "yes"}, {1.8, "no"}});
  EXPECT_EQ(store_->operator_results("half").at(0).confirmed, "no");
  EXPECT_EQ(store_->best({}).at(0).run_id, "good");
  add("elsewhere", {{3, "yes"}}, "Other CPU");
  EXPECT_EQ(store_->best_speedup("rms_norm", "s0", "cpu", "Test CPU"), 1.8);
  EXPECT_EQ(store_->best_speedup("rms_norm", "s0", "cpu", "Other CPU"), 3);
  EXPECT_EQ(store_->best_speedup("rms_norm", "s0", "cuda:0", "Test CPU"), std::nullopt);
  EXPECT_EQ(store_->best_speedup("rms_norm", "s1", "cpu", "Test CPU"), std::nullopt);
}

// A few easy scenarios give a larger mean than all of them: the two means cannot be compared.
TEST_F(StoreTest, BestComparesMeansOverTheSameScenariosOnly) {
  auto add = [&](const std::string& id, const std::map<std::string, double>& scenarios, const std::string& dtype,
                 const std::string& cpu = "Test CPU") {
    RunRecord r = sample_run(id);
    r.environment.cpu_name = cpu;
    store_->begin_run(r);
    for (const auto& [name, speedup] : scenarios) {
      KernelRecord k = sample_result(id, "rms_norm", name, speedup);
      k.confirmed = "yes";
      k.dtype = dtype;
      store_->add_kernel_result(k, sample_detail());
    }
  };
  add("all", {{"easy", 3}, {"hard", 1.2}}, "bf16");
  add("all-again", {{"hard", 1.3}, {"easy", 3}}, "bf16");
  add("easy", {{"easy", 3}}, "bf16");
  add("f32", {{"easy", 2}, {"hard", 2}}, "f32");
  add("elsewhere", {{"easy", 4}, {"hard", 4}}, "bf16", "Other CPU");
  std::set<std::string> best;
  for (const OperatorRecord& o : store_->best({})) best.insert(o.run_id);
  EXPECT_EQ(best, (std::set<std::string>{"all-again", "easy", "f32", "elsewhere"}));
  EXPECT_EQ(store_->best({}).back().run_id, "easy") << "the most scenarios first";
}

TEST_F(StoreTest, TimesThatRankNothingAreNoPartOfAMeanAndNoFailure) {
  store_->begin_run(sample_run("noisy"));
  KernelRecord noisy = sample_result("noisy", "rms_norm", "a", 9);
  noisy.invalid = "The baseline differs from itself by 2.93 %.";
  store_->add_kernel_result(noisy, sample_detail());
  OperatorRecord o = store_->operator_results("noisy").at(0);
  EXPECT_EQ(o.speedup, std::nullopt);
  EXPECT_EQ(o.passed, 1);
  EXPECT_EQ(o.failed, 0);
  EXPECT_EQ(o.timed, 0);
  EXPECT_STREQ(o.verdict(), "NOT TIMED");
  store_->add_kernel_result(sample_result("noisy", "rms_norm", "b", 1.5), sample_detail());
  o = store_->operator_results("noisy").at(0);
  EXPECT_NEAR(*o.speedup, 1.5, 1e-12);
  EXPECT_EQ(o.timed, 1);
  EXPECT_STREQ(o.verdict(), "FASTER");
  // A summary from elsewhere cannot say which scenarios the store has.
  o.run_id = "noisy";
  o.scenario_set = o.timed_set = "";
  store_->set_operator(o);
  EXPECT_NE(store_->operator_results("noisy").at(0).timed_set, "");
}

TEST(ComparableRuns, AreGroupedByTheScenariosOfTheirMeans) {
  auto run = [](const std::string& id, const std::string& judged, const std::string& timed, int64_t failed = 0) {
    OperatorRecord o;
    o.run_id = id;
    o.device = "cpu";
    o.passed = 2;
    o.failed = failed;
    o.scenario_set = judged;
    o.timed_set = timed;
    if (!timed.empty()) o.speedup = o.low = o.high = 1.5;
    return o;
  };
  auto groups = comparable_runs({run("failed", "ab", "a", 1), run("few", "a", "a"), run("not-timed", "ab", ""),
                                 run("all", "ab", "ab"), run("other", "x", "")});
  std::string text;
  for (const ComparableRuns& g : groups) {
    text += g.timed_set + ":";
    for (const OperatorRecord& o : g.runs) text += " " + o.run_id + (o.speedup ? "" : "(-)");
    text += "\n";
  }
  EXPECT_EQ(text, "ab: failed(-) not-timed(-) all\na: few\n: other(-)\n");
}

TEST_F(StoreTest, QueriesSelectByEveryField) {
  for (int i = 0; i < 10; ++i) {
    RunRecord r = sample_run("r" + std::to_string(i), 1'000'000 * (i + 1));
    r.tier = i % 2 == 0 ? "kernel" : "ttft";
    r.tags["tier"] = r.tier;
    r.environment.device = i == 9 ? "cuda:0" : "cpu";
    r.environment.gpu_name = "NVIDIA Test";
    r.metrics = {{"avg_speedup", i * 0.25}};
    store_->begin_run(r);
    if (i < 3) {
      KernelRecord k = sample_result(r.id, i == 0 ? "softmax" : "rms_norm", "a", 1.1);
      k.models = {i == 2 ? "qwen3-8b" : "llama-3.2-1b"};
      store_->add_kernel_result(k, sample_detail());
    }
  }
  auto ask = [&](auto&& change) {
    RunQuery q;
    change(q);
    EXPECT_EQ(static_cast<size_t>(store_->count_runs(q)), store_->runs(q).size());
    return ids(store_->runs(q));
  };
  EXPECT_EQ(ids(store_->runs({})).front(), "r9");
  RunQuery page;
  page.limit = 3;
  page.offset = 2;
  EXPECT_THAT(ids(store_->runs(page)), ElementsAre("r7", "r6", "r5"));
  page.oldest_first = true;
  EXPECT_THAT(ids(store_->runs(page)), ElementsAre("r2", "r3", "r4"));
  EXPECT_EQ(store_->count_runs(page), 10);
  EXPECT_THAT(ask([](RunQuery& q) { q.op = "rms_norm"; }), ElementsAre("r2", "r1"));
  EXPECT_THAT(ask([](RunQuery& q) { q.model = "llama"; }), ElementsAre("r1", "r0"));
  EXPECT_THAT(ask([](RunQuery& q) { q.model = "3.2"; }), ElementsAre());
  EXPECT_THAT(ask([](RunQuery& q) { q.device = "cuda:0"; }), ElementsAre("r9"));
  EXPECT_THAT(ask([](RunQuery& q) { q.device = "nvidia t"; }), ElementsAre("r9"));
  EXPECT_THAT(ask([](RunQuery& q) { q.device = "%"; }), ElementsAre()) << "a wildcard is a character here";
  EXPECT_THAT(ask([](RunQuery& q) { q.since_us = 9'000'000; }), ElementsAre("r9", "r8"));
  EXPECT_THAT(ask([](RunQuery& q) { q.until_us = 2'000'001; }), ElementsAre("r1", "r0"));
  EXPECT_THAT(ask([](RunQuery& q) { q.text = "SOFT"; }), ElementsAre("r0"));
  EXPECT_THAT(ask([](RunQuery& q) { q.tier = "ttft", q.until_us = 4'000'001; }), ElementsAre("r3", "r1"));
  EXPECT_THAT(ask([](RunQuery& q) { q.where = "metrics.avg_speedup >= 2 and tags.tier = \"kernel\""; }),
              ElementsAre("r8"));
  EXPECT_THAT(ask([](RunQuery& q) { q.where = "metrics.avg_speedup = 0.5"; }), ElementsAre("r2"));
  EXPECT_THAT(ask([](RunQuery& q) { q.where = "run_name LIKE 'Kernels%'"; }), ElementsAre());
  EXPECT_THAT(ask([](RunQuery& q) { q.where = "run_name ILIKE 'Kernels%' and run_id in ('r1', 'r4', 'no')"; }),
              ElementsAre("r4", "r1"));
  EXPECT_THAT(ask([](RunQuery& q) { q.where = "tags.tier != 'kernel' and start_time < 2500"; }), ElementsAre("r1"));
  EXPECT_THAT(ask([](RunQuery& q) { q.where = "status = 'FINISHED'"; }), ElementsAre());
  EXPECT_THAT(ask([](RunQuery& q) { q.where = "metrics.none is null and metrics.avg_speedup < 0.1"; }),
              ElementsAre("r0"));
  EXPECT_THAT(ask([](RunQuery& q) { q.where = "params.`num_runs` not in ('100')"; }), ElementsAre());
}

TEST_F(StoreTest, RunsAreFoundByNameAndTags) {
  RunRecord a = sample_run("a"), b = sample_run("b");
  a.name = "Softmax, four rows at once";
  a.tags = {{"nightly", "true"}, {"branch", "x=y"}};
  b.tags = {{"nightly", "false"}};
  store_->begin_run(a);
  store_->begin_run(b);
  auto found = [&](const std::string& name, std::vector<std::string> tags) {
    RunQuery query;
    query.name = name;
    query.tags = std::move(tags);
    std::string ids;
    for (const RunRecord& r : store_->runs(query)) ids += r.id;
    return ids;
  };
  EXPECT_EQ(found("softmax", {}), "a");
  EXPECT_EQ(found("%", {}), "");
  EXPECT_EQ(found("", {"nightly"}), "ba");
  EXPECT_EQ(found("", {"nightly=true"}), "a");
  EXPECT_EQ(found("", {"nightly", "branch=x=y"}), "a");
  EXPECT_EQ(found("", {"nightly", "weekly"}), "");
}

TEST_F(StoreTest, OneOperatorOverTheRuns) {
  for (int i = 0; i < 4; ++i) {
    std::string id = "r" + std::to_string(i);
    store_->begin_run(sample_run(id, i + 1));
    store_->add_kernel_result(sample_result(id, "rms_norm", "a", 1 + i), sample_detail());
    if (i != 2) store_->add_kernel_result(sample_result(id, "rms_norm", "b", 1 + i), sample_detail());
  }
  RunQuery two;
  two.limit = 2;
  std::vector<OperatorRecord> history = store_->operator_history("rms_norm", two);
  ASSERT_EQ(history.size(), 2u);
  EXPECT_EQ(history[0].run_id, "r3");
  EXPECT_EQ(history[1].run_id, "r2");
  std::vector<KernelRecord> b = store_->scenario_history("rms_norm", "b", two);
  ASSERT_EQ(b.size(), 2u);
  EXPECT_EQ(b[1].run_id, "r1");
  EXPECT_EQ(store_->scenario_history("rms_norm", "", two).size(), 3u);
}

TEST_F(StoreTest, TtftResultsByRunAndByModel) {
  for (int i = 0; i < 3; ++i) {
    RunRecord r = sample_run("r" + std::to_string(i), i + 1);
    r.tier = "ttft";
    store_->begin_run(r);
    TtftRecord t;
    t.run_id = r.id;
    t.path = "eager";
    t.model = i == 1 ? "qwen3-8b" : "llama-3.2-1b";
    t.prompt_tokens = 64;
    t.ttft_ms = 10.5 + i;
    t.tpot_ms = 1.25;
    t.samples = {{"prefill", {10.0, 11.0}}};
    store_->add_ttft_result(t);
    t.ttft_ms = 20.5;
    store_->add_ttft_result(t);  // the same path again replaces
    t.path = "compiled";
    store_->add_ttft_result(t);
  }
  EXPECT_EQ(store_->ttft_results("r0").size(), 2u);
  EXPECT_EQ(store_->ttft_results("r0")[0].samples["prefill"][1], 11.0);
  EXPECT_EQ(store_->ttft_results("r0")[0].ttft_ms, 20.5);
  EXPECT_FALSE(store_->ttft_results("r0")[0].compile_ms);
  RunQuery one;
  one.limit = 1;
  std::vector<TtftRecord> history = store_->ttft_history("llama-3.2-1b", one);
  ASSERT_EQ(history.size(), 2u);
  EXPECT_EQ(history[0].run_id, "r2");
  ASSERT_EQ(store_->ttft_models().size(), 2u);
  EXPECT_EQ(store_->ttft_models()[0].runs, 2);
}

TEST_F(StoreTest, ArtifactsAreKeptOnceAndGoWithTheirLastRun) {
  store_->begin_run(sample_run("x"));
  store_->begin_run(sample_run("y"));
  ArtifactRecord a = store_->add_artifact("x", "kernels/rms_norm.cpp", std::string("one\0two", 7));
  store_->add_artifact("y", "kernels/rms_norm.cpp", std::string("one\0two", 7));
  EXPECT_EQ(store_->artifact(a.sha256), std::string("one\0two", 7));
  EXPECT_EQ(store_->artifacts("x").at(0).size_bytes, 7);
  store_->remove_run("x");
  EXPECT_FALSE(store_->run("x"));
  EXPECT_EQ(store_->artifact(a.sha256), std::string("one\0two", 7));
  store_->remove_run("y");
  EXPECT_THAT(error_of([&] { store_->artifact(a.sha256); }), HasSubstr("is not there"));
  EXPECT_THAT(error_of([&] { store_->artifact("../../etc/passwd"); }), HasSubstr("no SHA-256"));
  EXPECT_THAT(error_of([&] { store_->remove_run("y"); }), HasSubstr("no run y"));
}

TEST_F(StoreTest, ANameStandsForItsNewestRun) {
  for (int64_t age : {9, 3, 6}) {
    RunRecord run = sample_run(fmt::format("20270115-080000-00000{}-aaaaaaaa", age), age);
    run.name = "first try";
    store_->begin_run(run);
  }
  const std::string named = store_->resolve_run("first try");
  for (const char* id : {"20270115-080000-000009-aaaaaaaa", "20270115-080000-000003-aaaaaaaa"})
    EXPECT_LE(store_->run(id)->started_us, store_->run(named)->started_us);
  EXPECT_THAT(error_of([&] { store_->resolve_run("first"); }), HasSubstr("has the id or the name"));
}

TEST_F(StoreTest, AbbreviatedIdsMustFitOneRun) {
  EXPECT_THAT(error_of([&] { store_->resolve_run("last"); }), HasSubstr("is empty"));
  store_->begin_run(sample_run("20270115-080000-000001-aaaaaaaa", 5));
  store_->begin_run(sample_run("20270115-080000-000002-bbbbbbbb", 4));
  EXPECT_EQ(store_->resolve_run("20270115-080000-000002"), "20270115-080000-000002-bbbbbbbb");
  EXPECT_EQ(store_->resolve_run("aaa"), "20270115-080000-000001-aaaaaaaa");
  EXPECT_EQ(store_->resolve_run("last"), "20270115-080000-000001-aaaaaaaa");
  EXPECT_THAT(error_of([&] { store_->resolve_run("2027"); }), HasSubstr("several runs"));
  EXPECT_THAT(error_of([&] { store_->resolve_run("zzz"); }), HasSubstr("has the id or the name 'zzz'"));
  EXPECT_THAT(error_of([&] { store_->resolve_run(""); }), HasSubstr("has the id or the name ''"));
}

TEST_F(StoreTest, EveryChangeMovesTheStamp) {
  int64_t before = store_->change_stamp();
  store_->begin_run(sample_run("x"));
  EXPECT_GT(store_->change_stamp(), before);
  auto reader = open_store_reader(folder_.db());
  before = reader->change_stamp();
  store_->log_metrics("x", {{"a", 1, 0, 1}});
  EXPECT_GT(reader->change_stamp(), before);
}

TEST_F(StoreTest, ABatchIsUndoneAsAWhole) {
  {
    auto batch = store_->batch();
    store_->begin_run(sample_run("x"));
    store_->add_kernel_result(sample_result("x", "rms_norm", "a", 1), sample_detail());
  }
  EXPECT_FALSE(store_->run("x"));
  auto batch = store_->batch();
  store_->begin_run(sample_run("y"));
  batch->commit();
  EXPECT_TRUE(store_->run("y"));
}

// As on a read-only mount, or in another user's folder.
TEST(StoreOpen, ReadsWhatItMayNotWrite) {
  StoreFolder folder;
  open_store(folder.db())->begin_run(sample_run("x"));
  namespace fs = std::filesystem;
  fs::permissions(folder.db(), fs::perms(0444));
  fs::permissions(folder / "", fs::perms(0555));
  pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(3);  // root may write everything
    try {
      auto reader = open_store_reader(folder.db());
      _exit(reader->run("x") && reader->count_runs({}) == 1 ? 0 : 1);
    } catch (const Error& e) {
      std::fprintf(stderr, "%s\n", e.what());
      _exit(2);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  fs::permissions(folder / "", fs::perms::owner_all);
}

TEST(StoreOpen, RefusesWhatIsNoStore) {
  StoreFolder folder;
  std::ofstream(folder.db()) << "hello, this is a text of some length and no database at all, whatever its name says.";
  EXPECT_THAT(error_of([&] { open_store(folder.db()); }), HasSubstr("no history of fastkernels"));
  EXPECT_THAT(error_of([&] { open_store_reader(folder / "none.db"); }), HasSubstr("There is no history at"));
}

}  // namespace
}  // namespace fk
