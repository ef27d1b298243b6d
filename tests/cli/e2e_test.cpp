// e2e throughput and latency: what they count, store and refuse, and whether they notice a slow candidate.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/json.h"
#include "measure/statistics.h"
#include "tests/cli/program.h"
#include "tests/sanitizer.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

class E2eVerb : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              fmt::format("fk-e2e-{}-{}", getpid(), testing::UnitTest::GetInstance()->random_seed());
    fs::create_directories(folder_ / "candidate/L1");
    setenv("FASTKERNELS_CANDIDATE_DIR", (folder_ / "candidate").c_str(), 1);
    setenv("FASTKERNELS_HOME", (folder_ / "home").c_str(), 1);
  }
  void TearDown() override {
    unsetenv("FASTKERNELS_CANDIDATE_DIR");
    unsetenv("FASTKERNELS_HOME");
    fs::remove_all(folder_);
  }

  static Arguments tiny(const std::string& action, const Arguments& more) {
    Arguments all = {"e2e", action, "--model", "tiny-llama", "--load-format", "dummy", "--threads", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static Json json_of(const Arguments& arguments) {
    Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.exit_code == 0 ? parse_json(outcome.out, "output") : Json();
  }
  void write_silu(const std::string& members) const {
    std::ofstream(folder_ / "candidate/L1/silu_and_mul.cpp") << R"(#include <fastkernels/candidate.h>
#include <math.h>
class SiluAndMul : public fk::SiluAndMul {
 public:
  using fk::SiluAndMul::SiluAndMul;
)" + members + "};\nFK_CANDIDATE(SiluAndMul)\n";
  }

  fs::path folder_;
};

TEST_F(E2eVerb, ThroughputCountsEveryTokenAndIsStored) {
  Json json = json_of(tiny("throughput", {"--num-prompts", "5", "--input-len", "12", "--output-len", "6",
                                          "--random-range-ratio", "0.5", "--attribute", "--json"}));
  ASSERT_FALSE(json.is_null());
  const Json& m = json["metrics"];
  EXPECT_EQ(m["num_requests"], 5);
  EXPECT_EQ(json["engine"]["generated_tokens"].get<int64_t>() + json["engine"]["prompt_tokens"].get<int64_t>(),
            m["total_num_tokens"]);
  EXPECT_NEAR(m["tokens_per_second"].get<double>() * m["elapsed_time"].get<double>(),
              m["total_num_tokens"].get<double>(), 1e-6);
  double shares = json["attribution"]["rest"].get<double>();
  for (const Json& o : json["attribution"]["operators"]) shares += o["share"].get<double>();
  EXPECT_NEAR(shares, 1, 1e-6);
  // The picture is of the model's pass, not of what draws tokens after it.
  EXPECT_GE(json["attribution"]["step"].size(), 25u);
  EXPECT_FALSE(json["dispatches"].empty());
  Json runs = json_of({"history", "--tier", "e2e", "--json"});
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0]["name"], "e2e throughput tiny-llama");
  EXPECT_TRUE(runs[0]["metrics"].contains("tokens_per_second"));
  EXPECT_EQ(runs[0]["params"]["num_prompts"], "5");
}

TEST_F(E2eVerb, LatencyTimesBatches) {
  Json json = json_of(tiny("latency", {"--batch-size", "3", "--input-len", "8", "--output-len", "4", "--num-iters", "3",
                                       "--num-iters-warmup", "1", "--json"}));
  ASSERT_FALSE(json.is_null());
  EXPECT_EQ(json["samples_ms"].size(), 3u);
  EXPECT_EQ(json["metrics"]["num_iters"], 3);
  EXPECT_GT(json["metrics"]["avg_latency"], 0);
  EXPECT_LE(json["metrics"]["p10_latency"], json["metrics"]["p99_latency"]);
  EXPECT_EQ(json["engine"]["generated_tokens"], 3 * 3 * 4);
}

TEST_F(E2eVerb, BadInputIsOneSentence) {
  auto refused = [](const Arguments& arguments, int code, const std::string& words) {
    Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, code) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  };
  refused({"e2e"}, 2, "e2e throughput");
  refused(tiny("throughput", {"--dataset-name", "custom"}), 2, "--dataset-path");
  refused(tiny("throughput", {"--random-range-ratio", "1"}), 2, "--random-range-ratio");
  refused(tiny("throughput", {"--max-model-len", "100000000"}), 2, "--max-model-len");
  refused(tiny("throughput", {"--leave-unfused", "nothing", "--input-len", "8"}), 1, "no operator");
  refused(tiny("throughput", {"--input-len", "1000000", "--num-prompts", "1"}), 1, "context");
  refused({"e2e", "latency", "--model", "bge-m3", "--load-format", "dummy"}, 1, "e2e");
  refused(tiny("throughput", {"--search-budget", "3"}), 2, "--compiled");
  refused(tiny("latency", {"--compiled", "--batch-invariant"}), 2, "--batch-invariant and --compiled");
  refused({"serve", "--model", "tiny-llama", "--load-format", "dummy", "--no-generated-kernels"}, 2, "--compiled");
  refused({"serve", "--model", "tiny-llama", "--load-format", "dummy", "--compiled", "--batch-invariant"}, 2,
          "--batch-invariant and --compiled");
  const std::string broken = testing::TempDir() + "/fk_broken.jinja";
  std::ofstream(broken) << "{% for m in messages %}{{ m.role ";
  refused({"serve", "--model", "tiny-llama", "--load-format", "dummy", "--chat-template", broken}, 1,
          "fk_broken.jinja");
  // Before anything is loaded or planned.
  const std::string ngrams = R"({"method": "ngram"})";
  refused({"serve", "--model", "tiny-gla", "--load-format", "dummy", "--compiled", "--speculative-config", ngrams}, 2,
          "tiny-gla has recurrent states");
  refused(
      {"e2e", "latency", "--model", "tiny-gla", "--load-format", "dummy", "--compiled", "--speculative-config", ngrams},
      2, "tiny-gla has recurrent states");
  refused({"e2e", "serve", "--compiled"}, 2, "--model");
  refused({"e2e", "serve", "--compiled", "--model", "tiny-llama", "--port", "8000"}, 2, "--port");
  refused({"e2e", "serve", "--compiled", "--model", "tiny-llama", "--request-rate", "1", "2"}, 2, "one load");
  refused({"e2e", "serve", "--rounds", "3"}, 2, "--compiled");
  refused({"e2e", "serve", "--compiled", "--model", "tiny-llama", "--rounds", "3", "--num-prompts", "1"}, 1,
          "The server with plans failed");
  const std::string few = folder_ / "few.jsonl";
  std::ofstream(few) << "{\"prompt\": \"x\"}\n{\"prompt\": \"y\"}\n";
  for (const char* name : {"random", "prefix-repetition"})
    refused(tiny("throughput", {"--dataset-name", name, "--dataset-path", few}), 2, "sharegpt or custom");
  refused({"e2e", "serve", "--dataset-path", few}, 2, "sharegpt or custom");
  refused(tiny("throughput", {"--tokenizer", "tiny-llama"}), 1, "tiny-llama has no tokenizer.json");
  refused({"e2e", "throughput", "--model", "tiny-llada", "--load-format", "dummy"}, 1, "token by token");
  std::ofstream(folder_ / "bad.jsonl") << "{\"prompt\": \"x\"}\n{\"prompt\"\n";
  refused(tiny("throughput", {"--dataset-name", "custom", "--dataset-path", folder_ / "bad.jsonl"}), 1, "Line 2 of");
}

TEST_F(E2eVerb, RandomPromptsAreNotInTheCache) {
  Json json = json_of(tiny("throughput", {"--num-prompts", "500", "--input-len", "32", "--output-len", "1", "--json"}));
  ASSERT_FALSE(json.is_null());
  EXPECT_EQ(json["engine"]["prompt_tokens"], 500 * 32);
  EXPECT_EQ(json["engine"]["cached_prompt_tokens"], 0) << json["engine"];
}

TEST_F(E2eVerb, FilesThatAreTooShortAreRepeatedAloud) {
  const std::string few = folder_ / "few.jsonl", words = folder_ / "tokenizer.json";
  std::ofstream(few) << "{\"prompt\": \"aaaa\"}\n{\"prompt\": \"bb\"}\n";
  const Arguments load = {"--dataset-name", "custom", "--dataset-path", few, "--num-prompts", "5",
                          "--output-len",   "1",      "--repeats",      "2", "--json"};
  Outcome repeated = run_program(tiny("throughput", load));
  EXPECT_EQ(repeated.exit_code, 0) << repeated.err;
  EXPECT_EQ(repeated.err, "fastkernels: warning: 2 prompts of " + few + " are repeated to make 5.\n");
  EXPECT_EQ(parse_json(repeated.out, "output")["engine"]["prompt_tokens"], 2 * (3 * 4 + 2 * 2));
  // With a tokenizer of one's own the texts have other tokens than their bytes.
  std::ofstream(words) << R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "aa": 2}, "merges": ["a a"]}})";
  Arguments with = load;
  with.insert(with.end(), {"--tokenizer", words});
  EXPECT_EQ(json_of(tiny("throughput", with))["engine"]["prompt_tokens"], 2 * (3 * 2 + 2 * 2));
}

TEST_F(E2eVerb, RequestsThatFailedAreAnExitCode) {
  RunningProgram server({"serve", "--model", "tiny-llama", "--load-format", "dummy", "--threads", "1", "--port", "0",
                         "--max-num-seqs", "1", "--max-waiting", "0"});
  ASSERT_TRUE(server.prints("http://127.0.0.1:")) << server.err();
  const std::string out = server.out();
  const std::string url = out.substr(out.find("http://"), out.find(' ') - out.find("http://"));
  Outcome outcome = run_program({"e2e", "serve", "--base-url", url, "--num-prompts", "16", "--input-len", "8",
                                 "--output-len", "200", "--ignore-eos", "--json", "--no-history"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find(" of 16 requests failed: "), std::string::npos) << outcome.err;
  Json load = parse_json(outcome.out, "output")["loads"][0];
  EXPECT_GT(load["failures"][0]["requests"], 0) << load["failures"];
}

TEST_F(E2eVerb, AKilledComparisonLeavesNobodyBehind) {
  write_silu("  void forward(fk::Context&, fk::View, fk::View) override {}\n");
  const std::string mark = fmt::format("--seed={}", 900'000'000 + getpid());  // in the command line of its children
  auto children = [&] {
    int count = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "cmdline");
      const std::string line{std::istreambuf_iterator<char>(file), {}};
      count += line.find(mark) != line.npos && line.find("--no-compare") != line.npos ? 1 : 0;
    }
    return count;
  };
  Outcome outcome = run_and_interrupt(
      tiny("latency", {"--output-len", "400", "--repeats", "10000", mark}), [&] { return children() > 0; }, SIGKILL);
  EXPECT_EQ(outcome.exit_code, 128 + SIGKILL) << outcome.err;
  EXPECT_TRUE(comes_true([&] { return children() == 0; }));
}

TEST_F(E2eVerb, PlansRunStepsWhoseSizesRepeat) {
  const Arguments load = {
      "--num-prompts",  "6", "--input-len", "20", "--output-len", "6", "--max-num-batched-tokens", "9",
      "--max-num-seqs", "3"};
  Arguments more = load;
  more.insert(more.end(), {"--compiled", "--no-generated-kernels", "--no-compare", "--attribute", "--json"});
  Json json = json_of(tiny("throughput", more));
  ASSERT_FALSE(json.is_null());
  EXPECT_GT(json["engine"]["steps"], 10);
  EXPECT_GT(json["engine"]["compiled_steps"], json["engine"]["steps"].get<int64_t>() / 4);
  EXPECT_LE(json["engine"]["compiled_steps"], json["engine"]["steps"]);
  for (const char* phase : {"prefill", "decode", "mixed"}) EXPECT_GT(json["plan"][phase]["calls"], 20) << phase;
  // A plan makes no call of the whole model, and its step has all calls of a pass.
  EXPECT_GE(json["attribution"]["step"].size(), 25u);
  for (const Json& o : json["attribution"]["operators"]) EXPECT_NE(o["implementation"], "composed") << o;
  Json by_tree = json_of(tiny("throughput", {"--num-prompts", "2", "--input-len", "4", "--output-len", "2", "--json"}));
  EXPECT_EQ(by_tree["engine"]["compiled_steps"], 0);
  more.pop_back();
  Outcome text = run_program(tiny("throughput", more));
  EXPECT_NE(text.out.find(" steps by plans\n"), std::string::npos) << text.out;
}

TEST_F(E2eVerb, SlowPlansAreComparedWithTheTree) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsFullSpeed);
  Json json = json_of(tiny("throughput", {"--num-prompts", "3", "--input-len", "8", "--output-len", "8", "--rounds",
                                          "3", "--repeats", "2", "--compiled", "--no-generated-kernels", "--json"}));
  ASSERT_FALSE(json.is_null());
  EXPECT_EQ(json["sides"], "compiled");
  EXPECT_EQ(json["processes"], 7);
  EXPECT_EQ(json["baseline"]["samples_ms"].size(), 4u);
  EXPECT_EQ(json["candidate"]["samples_ms"].size(), 3u);
  EXPECT_GT(json["engine"]["compiled_steps"], 0);
  const Json& gain = json["comparison"]["gain"];
  EXPECT_LE(gain["speedup_low"], gain["speedup"]);
  EXPECT_GE(gain["speedup_high"], gain["speedup"]);
  EXPECT_TRUE(gain.contains("control_error"));
  EXPECT_FALSE(json.contains("gains")) << "no candidate is on one side alone";
  Json runs = json_of({"history", "--tier", "e2e", "--json"});
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_GT(runs[0]["metrics"]["compiled_step_share"], 0);
  EXPECT_TRUE(runs[0]["metrics"].contains("throughput_speedup_low"));
}

TEST_F(E2eVerb, SlowServersWithPlansTakeTurnsWithOthers) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsFullSpeed);
  Json json = json_of({"e2e",
                       "serve",
                       "--compiled",
                       "--model",
                       "tiny-llama",
                       "--serve-flags",
                       "--load-format dummy",
                       "--no-generated-kernels",
                       "--threads",
                       "1",
                       "--num-prompts",
                       "4",
                       "--input-len",
                       "8",
                       "--output-len",
                       "6",
                       "--rounds",
                       "3",
                       "--repeats",
                       "2",
                       "--json"});
  ASSERT_FALSE(json.is_null());
  EXPECT_EQ(json["servers"], 7);
  ASSERT_EQ(json["comparisons"].size(), 4u);
  for (const Json& row : json["comparisons"]) {
    EXPECT_EQ(row["samples_ms"]["eager"].size(), 4u);
    EXPECT_EQ(row["samples_ms"]["compiled"].size(), 3u);
    EXPECT_GT(row["eager"], 0);
    EXPECT_TRUE(row.contains("control_error"));
  }
  EXPECT_GT(json["engine"]["compiled_steps"], 0);
  EXPECT_LE(json["engine"]["compiled_steps"], json["engine"]["steps"]);
  ASSERT_EQ(json["loads"].size(), 2u);
  EXPECT_EQ(json["loads"][1]["completed"], 4);
}

// A candidate that was never judged is marked; one that is slow is found, and its share explains how much.
TEST_F(E2eVerb, GuessedTokensAreCounted) {
  Json json = json_of(tiny("throughput", {"--num-prompts", "3", "--input-len", "20", "--output-len", "60", "--json",
                                          "--speculative-config", R"({"prompt_lookup_min": 1})"}));
  ASSERT_FALSE(json.is_null());
  const Json& m = json["metrics"];
  EXPECT_GT(m["spec_decode_draft_tokens"].get<int64_t>(), 0);
  EXPECT_LE(m["spec_decode_accepted_tokens"], m["spec_decode_draft_tokens"]);
  EXPECT_GE(m["spec_decode_acceptance_length"].get<double>(), 1.0);
  EXPECT_EQ(json["engine"]["generated_tokens"], 180);
  // By a model, which is the same one here.
  json = json_of(tiny("latency", {"--batch-size", "2", "--input-len", "20", "--output-len", "40", "--num-iters", "1",
                                  "--num-iters-warmup", "0", "--json", "--speculative-config",
                                  R"({"model": "tiny-llama", "num_speculative_tokens": 3})"}));
  ASSERT_FALSE(json.is_null());
  EXPECT_GT(json["metrics"]["spec_decode_acceptance_rate"].get<double>(), 90.0);
  // By a head.
  json = json_of(tiny("throughput", {"--num-prompts", "3", "--input-len", "20", "--output-len", "40", "--json",
                                     "--speculative-config", R"({"method": "eagle3", "model": "tiny-eagle3"})"}));
  ASSERT_FALSE(json.is_null());
  EXPECT_GT(json["metrics"]["spec_decode_draft_tokens"].get<int64_t>(), 0);
  EXPECT_EQ(json["engine"]["generated_tokens"], 120);
  const Json named = {{"method", "eagle3"}, {"model", "tiny-eagle3"}, {"num_speculative_tokens", 4}};
  EXPECT_EQ(json["speculative_config"], named);
}

TEST_F(E2eVerb, SlowCompareExplainsWhatTheModelGains) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsFullSpeed);
  write_silu(R"(  void forward(fk::Context&, fk::View x, fk::View out) override {
    fk::with_float(x.dtype(), [&]<class T>(T) {
      for (int64_t t = 0; t < x.size(0); ++t)
        for (int64_t i = 0; i < out.size(1); ++i) {
          volatile float slow = x.row<T>(t)[i];
          for (int k = 0; k < 200; ++k) slow = slow * 1.0f;
          out.row<T>(t)[i] = T(slow);
        }
    });
  }
)");
  Outcome outcome = run_program(tiny("throughput", {"--num-prompts", "4", "--input-len", "16", "--output-len", "8",
                                                    "--rounds", "3", "--repeats", "2", "--json"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("never judged"), std::string::npos) << outcome.err;
  Json json = parse_json(outcome.out, "output");
  EXPECT_EQ(json["doubt"], "silu_and_mul never judged");
  EXPECT_EQ(json["processes"], 7);
  EXPECT_GT(json["candidate_calls"], 0);
  const Json& gain = json["comparison"]["gain"];
  EXPECT_LT(gain["speedup"], 1) << gain.dump();
  EXPECT_NE(gain["verdict"], "FASTER") << gain.dump();
  for (const char* side : {"baseline", "candidate"}) {
    std::vector<double> ms;
    for (const Json& process : json[side]["samples_ms"])
      for (const Json& load : process) ms.push_back(load.get<double>());
    constexpr double kTokens = 4 * (16 + 8);  // of a load
    EXPECT_NEAR(json[side]["metrics"]["tokens_per_second"].get<double>() * median(ms) * 1e-3, kTokens, 1e-6) << side;
  }
  ASSERT_EQ(json["gains"].size(), 1u);
  EXPECT_LT(json["gains"][0]["in_model"], 0.5);
  EXPECT_LT(json["expected_speedup"], 1);
  Json runs = json_of({"history", "--tier", "e2e", "--json"});
  ASSERT_EQ(runs.size(), 1u) << "only the comparison is stored";
  EXPECT_TRUE(runs[0]["metrics"].contains("throughput_speedup_low"));
  EXPECT_EQ(runs[0]["tags"]["candidates_judged"], "never");
  Outcome without = run_program(tiny("throughput", {"--num-prompts", "2", "--input-len", "4", "--output-len", "2",
                                                    "--no-candidate-kernels", "--csv"}));
  EXPECT_EQ(without.exit_code, 0) << without.err;
  EXPECT_EQ(without.err, "");
}

// Prompts are longer by default than a tiny model's context: an example that names one says how long its prompts are.
TEST_F(E2eVerb, TheExamplesOfTheHelpFitTheirModel) {
  std::istringstream help(run_program({"e2e", "--help"}).out);
  int examples = 0;
  for (std::string line; std::getline(help, line);) {
    if (line.find("fastkernels e2e") == std::string::npos || line.find("tiny-llama") == std::string::npos) continue;
    Arguments load = {"--num-prompts", "2"};
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string word, value; words >> word;)
      if (word == "--input-len" && words >> value) load.insert(load.end(), {word, value});
    Outcome outcome = run_program(tiny("throughput", load));
    EXPECT_EQ(outcome.exit_code, 0) << line << ": " << outcome.err;
    ++examples;
  }
  EXPECT_GE(examples, 4);
}

}  // namespace
}  // namespace fk
