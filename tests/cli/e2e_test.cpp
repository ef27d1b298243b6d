// e2e throughput and latency: what they count, store and refuse, and whether they notice a slow candidate.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/json.h"
#include "measure/statistics.h"
#include "tests/cli/program.h"
#include "tests/sanitizer.h"

namespace fk {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

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
  EXPECT_FALSE(json["attribution"]["step"].empty());
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
  std::ofstream(folder_ / "bad.jsonl") << "{\"prompt\": \"x\"}\n{\"prompt\"\n";
  refused(tiny("throughput", {"--dataset-name", "custom", "--dataset-path", folder_ / "bad.jsonl"}), 1, "Line 2 of");
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

}  // namespace
}  // namespace fk
