// Events of a benchmark reach the store, or the journal if the store fails; both can be imported, once.
#include "track/recorder.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "core/error.h"
#include "tests/track/store_fixture.h"
#include "track/base64.h"
#include "track/environment.h"
#include "track/import.h"
#include "track/records_json.h"

namespace fk {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A row as `kernels` writes it.
Json row(const std::string& op, const std::string& scenario, double speedup) {
  return {{"operator", op},
          {"level", 1},
          {"scenario", scenario},
          {"models", {"llama-3.2-1b"}},
          {"tp", 1},
          {"workload", {{"sequences", {{3, 0}, {5, 2}}}, {"dtype", "bf16"}}},
          {"verdict", "PASSED"},
          {"sentence", ""},
          {"judgement", {{"worst_ratio", 0.5}}},
          {"bytes", 10.0},
          {"timing",
           {{"samples", Json::parse("[[[3,2,\"\"]]]")},
            {"control_samples", Json::parse("[[[3,3,\"\"]]]")},
            {"invalid", ""},
            {"speedup", speedup},
            {"speedup_low", speedup - 0.1},
            {"speedup_high", speedup + 0.1},
            {"speed_verdict", "FASTER"},
            {"baseline", {{"median_ns", 30.0}}},
            {"candidate", {{"median_ns", 20.0}}}}},
          {"candidate", "abc"}};
}

Json aggregate(double mean) {
  Json one = {{"geometric_mean", mean}, {"low", mean * 0.9}, {"high", mean * 1.1}};
  return {{"operators", {{"rms_norm", one}}}, {"overall", one}};
}

class RecorderTest : public testing::Test {
 protected:
  RecorderOptions options(bool journal_always = false) const {
    RecorderOptions o;
    o.db = folder_.db();
    o.journal = folder_ / "run.jsonl";
    o.journal_always = journal_always;
    return o;
  }
  Recorder::Warn warn() {
    return [this](const std::string& sentence) { warnings_.push_back(sentence); };
  }
  // A run whose scenario `a` beat the best known result; `held`: it was confirmed.
  void record_best(double speedup, bool held) {
    Recorder recorder(options(), warn());
    recorder.start(sample_run(""));
    Json better = row("rms_norm", "a", speedup), other = row("rms_norm", "b", 1.1);
    better["confirmation"] = {{"confirmed", held}, {"best_before", 1.0}, {"sentence", ""}};
    recorder.add(std::vector<Json>{better, other});
    recorder.add(kernel_summary_events(Json::array({better, other}), aggregate(speedup), {}, 77));
    recorder.end("finished");
  }
  std::string record_one(RecorderOptions o) {
    Recorder recorder(std::move(o), warn());
    RunRecord run = sample_run("");
    run.started_us = 0;
    recorder.start(run);
    recorder.artifact("kernels/rms_norm.cpp", "// caf\xe9\n");  // Latin-1, as files are
    recorder.add(row("rms_norm", "a", 1.5));
    recorder.add(row("rms_norm", "b", 2.5));
    recorder.add(kernel_summary_events(Json::array({row("rms_norm", "a", 1.5), row("rms_norm", "b", 2.5)}),
                                       aggregate(1.9), {{"rms_norm", "f00"}}, 77));
    recorder.end("finished");
    return recorder.run().id;
  }

  StoreFolder folder_;
  std::vector<std::string> warnings_;
};

TEST(Base64, ThereAndBack) {
  EXPECT_EQ(to_base64("Man"), "TWFu");
  EXPECT_EQ(to_base64("Ma"), "TWE=");
  EXPECT_EQ(to_base64(""), "");
  for (size_t n = 0; n < 300; ++n) {
    std::string bytes;
    for (size_t i = 0; i < n; ++i) bytes += static_cast<char>(i * 37 + n);
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
  }
  EXPECT_THROW(from_base64("a"), Error);
  EXPECT_THROW(from_base64("a*=="), Error);
}

TEST_F(RecorderTest, OnlyAConfirmedBestIsToBeBeaten) {
  Recorder next(options(), warn());
  EXPECT_EQ(next.best_speedup("rms_norm", "a"), std::nullopt) << "before it knows its device";
  RunRecord run = sample_run("next");
  run.started_us += 1;
  next.start(run);
  record_best(1.5, true);
  record_best(2.5, false);
  EXPECT_EQ(next.best_speedup("rms_norm", "a"), 1.5);
  EXPECT_EQ(next.best_speedup("rms_norm", "b"), std::nullopt) << "it never was one";
  auto store = open_store(folder_.db());
  OperatorRecord best = store->best({}).at(0);
  EXPECT_EQ(best.confirmed, "yes");
  EXPECT_EQ(best.speedup, 1.5);
  EXPECT_EQ(store->kernel_results(best.run_id).at(0).confirmed, "yes");
  EXPECT_EQ(store->kernel_results(best.run_id).at(1).confirmed, "");
}

TEST_F(RecorderTest, EverythingToldIsStored) {
  std::string id = record_one(options());
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run.jsonl")) << "a journal nobody needs";
  auto store = open_store(folder_.db());
  std::optional<RunRecord> run = store->run(id);
  ASSERT_TRUE(run);
  EXPECT_EQ(run->status, "finished");
  EXPECT_EQ(run->tags["tier"], "kernel");
  EXPECT_EQ(run->metrics["avg_speedup"], 1.9);
  EXPECT_EQ(run->metrics["rms_norm_passed"], 2);
  EXPECT_EQ(run->metrics["total_failed"], 0);
  OperatorRecord o = store->operator_results(id).at(0);
  EXPECT_EQ(o.speedup, 1.9);
  EXPECT_EQ(o.source_sha256, "f00");
  EXPECT_EQ(o.worst, 1.5);
  EXPECT_EQ(o.err_ratio, 0.5);
  KernelRecord k = store->kernel_results(id).at(1);
  EXPECT_EQ(k.tokens, 8);
  EXPECT_EQ(k.dtype, "bf16");
  EXPECT_EQ(kernel_row(*store->kernel_detail(id, "rms_norm", "b")), row("rms_norm", "b", 2.5)) << "the row changed";
  EXPECT_EQ(store->artifact(store->artifacts(id).at(0).sha256), "// caf\xe9\n");
}

TEST_F(RecorderTest, AStoreThatCannotBeWrittenIsOneWarningAndAJournal) {
  RecorderOptions o = options();
  o.db = "/proc/no/such/history.db";
  std::string id = record_one(o);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("run.jsonl"));
  auto store = open_store(folder_.db());
  ImportResult r = import_file(*store, folder_ / "run.jsonl");
  EXPECT_EQ(r.added, 1u);
  EXPECT_EQ(store->kernel_results(id).size(), 2u);
  EXPECT_EQ(store->run(id)->status, "finished");
  EXPECT_EQ(store->run(id)->metrics["avg_speedup"], 1.9);
  EXPECT_EQ(store->operator_results(id).at(0).speedup, 1.9);
}

// A disk that is full: the file of the database may not grow any more.
TEST_F(RecorderTest, AFullDiskInTheMiddleLosesNothing) {
  pid_t child = fork();
  if (child == 0) {
    struct rlimit limit {
      200'000, 200'000
    };
    signal(SIGXFSZ, SIG_IGN);
    Recorder recorder(options(), warn());
    recorder.start(sample_run("full"));
    setrlimit(RLIMIT_FSIZE, &limit);
    for (int i = 0; i < 100; ++i) {
      Json r = row("rms_norm", "s" + std::to_string(i), 1.5);
      r["explanation"] = std::string(1000, 'x');
      recorder.add(r);
    }
    recorder.end("finished");
    _exit(warnings_.size() == 1 && !recorder.stored() ? 0 : 10 + static_cast<int>(warnings_.size()));
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  auto store = open_store(folder_.db());
  size_t before = store->kernel_results("full").size();
  EXPECT_LT(before, 100u) << "the disk was not full";
  import_file(*store, folder_ / "run.jsonl");
  EXPECT_EQ(store->kernel_results("full").size(), 100u);
  EXPECT_EQ(store->run("full")->status, "finished");
}

TEST_F(RecorderTest, ImportingTwiceIsImportingOnce) {
  RecorderOptions o = options(true);
  o.enabled = false;  // --no-history, and yet a journal for --resume
  std::string id = record_one(o);
  EXPECT_TRUE(warnings_.empty());
  EXPECT_FALSE(std::filesystem::exists(folder_.db()));
  auto store = open_store(folder_.db());
  std::string journal = folder_ / "run.jsonl";
  EXPECT_EQ(import_file(*store, journal).added, 1u);
  int64_t stamp = store->change_stamp();
  ImportResult again = import_file(*store, journal);
  EXPECT_EQ(again.added, 0u);
  EXPECT_EQ(again.known, 1u);
  EXPECT_EQ(store->change_stamp(), stamp) << "the second import wrote something";
}

TEST_F(RecorderTest, ACutJournalIsTakenUpToTheCutAndCompletedLater) {
  RecorderOptions o = options(true);
  o.enabled = false;
  std::string id = record_one(o), path = folder_ / "run.jsonl";
  std::ifstream in(path);
  std::string whole{std::istreambuf_iterator<char>(in), {}};
  auto store = open_store(folder_.db());
  std::ofstream(folder_ / "cut.jsonl") << whole.substr(0, whole.find("\"scenario\":\"b\""));
  ImportResult r = import_file(*store, folder_ / "cut.jsonl");
  EXPECT_EQ(r.added, 1u);
  EXPECT_EQ(r.damaged, 1u);
  EXPECT_EQ(store->kernel_results(id).size(), 1u);
  EXPECT_EQ(store->run(id)->status, "interrupted") << "nobody known still writes it";
  EXPECT_EQ(import_file(*store, path).added, 1u);
  EXPECT_EQ(store->kernel_results(id).size(), 2u);
  EXPECT_EQ(store->run(id)->status, "finished");
}

// A CUDA candidate keeps its ending, and the build log says how it was built even where the compiler was silent.
TEST_F(RecorderTest, ACandidateIsKeptAsItIsCalledWithItsBuild) {
  {
    Recorder recorder(options(), warn());
    recorder.start(sample_run("live"));
    recorder.add(
        candidate_events({"softmax", "tasks/candidate/L1/softmax.cu", "kernel", {"nvcc", "-O3"}, "a warning\n"}));
    recorder.add(candidate_events({"rms_norm", "tasks/candidate/L1/rms_norm.cpp", "loop", {"g++", "-O2"}}));
    recorder.end("finished");
  }
  RunRecord run = sample_run("imported");
  run.status = "finished";
  Json document = {{"schema", "fastkernels.kernels/1"}, {"run", to_json(run)},
                   {"machine", Json::object()},         {"options", Json::object()},
                   {"candidates", Json::array()},       {"results", Json::array({row("rms_norm", "a", 1.5)})},
                   {"aggregate", aggregate(1.5)}};
  document["candidates"].push_back({{"operator", "softmax"},
                                    {"path", "L1/softmax.cu"},
                                    {"source", "kernel"},
                                    {"command", {"nvcc", "-O3"}},
                                    {"build_log", "a warning\n"}});
  std::ofstream(folder_ / "kernels.json") << document.dump();
  auto store = open_store(folder_.db());
  ASSERT_EQ(import_file(*store, folder_ / "kernels.json").added, 1u);
  auto text = [&](const std::string& id, const std::string& path) -> std::string {
    for (const ArtifactRecord& a : store->artifacts(id))
      if (a.path == path) return store->artifact(a.sha256);
    return "(none)";
  };
  for (const char* id : {"live", "imported"}) {
    EXPECT_EQ(text(id, "kernels/softmax.cu"), "kernel") << id;
    EXPECT_EQ(text(id, "logs/softmax.txt"), "$ nvcc -O3\na warning\n") << id;
  }
  EXPECT_EQ(text("live", "kernels/rms_norm.cpp"), "loop");
  EXPECT_EQ(text("live", "logs/rms_norm.txt"), "$ g++ -O2\n");
}

TEST_F(RecorderTest, AnImportThatFailsLeavesNothing) {
  auto store = open_store(folder_.db());
  auto refuse = [&](const std::string& text, std::string_view words) {
    std::ofstream(folder_ / "bad.jsonl") << text;
    try {
      import_file(*store, folder_ / "bad.jsonl");
      ADD_FAILURE() << "taken: " << text;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr(words));
    }
    EXPECT_EQ(store->count_runs({}), 0);
  };
  std::string begin = run_event(sample_run("x")).dump() + "\n";
  refuse("", "holds no run");
  refuse("not json\n", "holds no run");
  refuse(row("a", "b", 1).dump() + "\n", "does not begin with a run");
  refuse(begin + "{\"event\":\"magic\"}\n", "'magic' is no event");
  refuse(begin + "{\"operator\":\"a\"}\n", "'scenario' is missing");
  refuse(begin + "{\"operator\":7,\"scenario\":\"b\",\"verdict\":\"PASSED\"}\n", "record 2");
  refuse(begin + "{\"event\":\"metrics\",\"points\":[{\"key\":\"a\",\"value\":\"b\"}]}\n", "record 2");
  refuse(begin + "{\"event\":\"artifact\",\"path\":\"a\",\"base64\":\"?\"}\n", "not base64");
  refuse("{\"event\":\"run\",\"run\":{\"run_id\":\"x\"}}\n", "'name' is missing");
  refuse("{\"schema\":\"other/1\"}", "no result file of fastkernels");
  refuse("{\"schema\":\"fastkernels.kernels/1\",\"options\":3}", "record 0");
  EXPECT_THROW(import_file(*store, folder_ / "none.jsonl"), Error);
  EXPECT_THROW(import_file(*store, folder_ / ""), Error);
}

TEST_F(RecorderTest, AnotherRunUnderTheSameIdIsRefused) {
  auto store = open_store(folder_.db());
  store->begin_run(sample_run("x"));
  RunRecord other = sample_run("x");
  other.name = "something else";
  std::ofstream(folder_ / "other.jsonl") << run_event(other).dump() << "\n";
  try {
    import_file(*store, folder_ / "other.jsonl");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("'something else' against 'kernels rms_norm'"));
  }
}

TEST_F(RecorderTest, ExportAndImportMakeTheSameStore) {
  std::string id = record_one(options());
  auto export_all = [&](StoreReader& store) {
    std::string text;
    for_each_event(store, id, [&](const Json& e) { text += e.dump() + "\n"; });
    return text;
  };
  auto first = open_store(folder_.db());
  TtftRecord t;
  t.run_id = id;
  t.path = "eager";
  t.model = "m";
  t.ttft_ms = 0.1;
  first->add_ttft_result(t);
  std::string text = export_all(*first);
  std::ofstream(folder_ / "export.jsonl") << text;
  auto second = open_store(folder_ / "second.db");
  EXPECT_EQ(import_file(*second, folder_ / "export.jsonl").added, 1u);
  EXPECT_EQ(export_all(*second), text);
}

TEST_F(RecorderTest, ARunLeftByAnExceptionFailed) {
  std::string id;
  try {
    Recorder recorder(options(), warn());
    recorder.start(sample_run(""));
    id = recorder.run().id;
    throw Error("the real one");
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "the real one");
  }
  EXPECT_EQ(open_store(folder_.db())->run(id)->status, "failed");
}

TEST_F(RecorderTest, ARunWhoseProcessDiedIsClosedByTheNext) {
  pid_t child = fork();
  if (child == 0) {
    Recorder recorder(options(), warn());
    RunRecord run = sample_run("dead");
    run.environment = collect_environment("cpu", Json::object());
    recorder.start(run);
    recorder.add(row("rms_norm", "a", 1.5));
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  auto store = open_store(folder_.db());
  RunRecord alive = sample_run("alive");
  alive.environment = collect_environment("cpu", Json::object());
  store->begin_run(alive);
  EXPECT_EQ(store->run("dead")->status, "running");
  EXPECT_EQ(close_dead_runs(*store), 1u);
  EXPECT_EQ(store->run("dead")->status, "interrupted");
  EXPECT_EQ(store->run("alive")->status, "running");
  EXPECT_EQ(store->kernel_results("dead").size(), 1u);
}

TEST_F(RecorderTest, AResumedRunGoesOn) {
  {
    Recorder recorder(options(), warn());
    recorder.start(sample_run("x"));
    recorder.add(row("rms_norm", "a", 1.5));
    recorder.end("interrupted");
  }
  Recorder recorder(options(), warn());
  recorder.start(sample_run("x"), true);
  recorder.add(row("rms_norm", "b", 1.5));
  recorder.end("finished");
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(open_store(folder_.db())->kernel_results("x").size(), 2u);
}

std::string cpuinfo_clock() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("cpu MHz")) return line;
  return "";
}

TEST(Environment, NamesTheCheckoutAndTheProcess) {
  Environment e =
      collect_environment("cpu", Json::parse(R"({"cpu":{"model":"C"},"gpus":[{"name":"G","memory_bytes":2097152}]})"));
  EXPECT_EQ(e.cpu_name, "C");
  EXPECT_EQ(e.gpu_name, "G");
  EXPECT_EQ(e.gpu_vram_mb, 2);
  EXPECT_EQ(e.device_name(), "C");
  EXPECT_THAT(e.details["build_flags"].get<std::string>(), HasSubstr("-fopenmp-simd"));
  EXPECT_EQ(e.details["load_average"].size(), 3u);
  if (std::ifstream("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq") || !cpuinfo_clock().empty()) {
    EXPECT_GT(e.details["cpu_clock_mhz"].get<double>(), 10) << "virtual machines name a clock, too";
  }
  EXPECT_TRUE(process_alive(process_json()));
  Json gone = process_json();
  gone["start_time"] = "1";
  EXPECT_FALSE(process_alive(gone)) << "another process has this number now";
}

}  // namespace
}  // namespace fk
