// `eval` as a user runs it: items, score and history; candidates that are right, and those that are wrong in hidden
// places.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "cli/eval_report.h"
#include "core/json.h"
#include "tests/cli/program.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

class Eval : public testing::Test {
 protected:
  Eval() {
    std::string pattern = (fs::temp_directory_path() / "fastkernels-eval-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    setenv("FASTKERNELS_CANDIDATE_DIR", (folder_ / "candidate").c_str(), 1);
    setenv("FASTKERNELS_HOME", (folder_ / "home").c_str(), 1);
  }
  ~Eval() override {
    unsetenv("FASTKERNELS_CANDIDATE_DIR");
    unsetenv("FASTKERNELS_HOME");
    std::error_code error;
    fs::remove_all(folder_, error);
  }

  // rms_norm whose outputs are multiplied by `factor`, an expression of x.size(0) and of `calls`.
  void rms_norm(const std::string& factor) const {
    fs::create_directories(folder_ / "candidate/L1");
    std::ofstream(folder_ / "candidate/L1/rms_norm.cpp") << R"(#include <fastkernels/candidate.h>
#include <math.h>
class RMSNorm : public fk::RMSNorm {
 public:
  using fk::RMSNorm::RMSNorm;
  const char* refuse(fk::Args args) const override { return args[0].rank() == 2 ? nullptr : "rows only"; }
  void forward(fk::Context&, fk::View x, fk::OptView residual, fk::View out, fk::OptView residual_out) override {
    static int64_t calls = 0;
    ++calls;
    float factor = )" << factor << R"(;
    fk::with_float(x.dtype(), [&]<class T>(T) {
      fk::View w = weight("weight");
      for (int64_t t = 0; t < x.size(0); ++t) {
        float squares = 0;
        for (int64_t i = 0; i < x.size(1); ++i) {
          float v = x.row<T>(t)[i];
          if (residual) {
            residual_out->row<T>(t)[i] = v + float(residual->row<T>(t)[i]);
            v = residual_out->row<T>(t)[i];
          }
          squares += v * v;
        }
        float scale = factor / sqrtf(squares / float(x.size(1)) + float(init_.eps));
        for (int64_t i = 0; i < x.size(1); ++i) {
          float v = residual ? float(residual_out->row<T>(t)[i]) : float(x.row<T>(t)[i]);
          float weight = w.ptr<T>()[i];
          out.row<T>(t)[i] = v * scale * weight;
        }
      }
    });
  }
};
FK_CANDIDATE(RMSNorm)
)";
  }

  Arguments small(const std::string& run, const Arguments& more = {}) const {
    Arguments arguments = {"eval",
                           "--model",
                           "tiny-llama",
                           "--load-format",
                           "dummy",
                           "--device",
                           "cpu",
                           "--threads",
                           "1",
                           "--scale",
                           "1/32",
                           "--num-prompts",
                           "12",
                           "--rounds",
                           "1",
                           "--num-iters",
                           "2",
                           "--run-dir",
                           (folder_ / run).string(),
                           "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  // The only item of a run, and that the program ended as it says.
  Json item(const std::string& run, bool valid) const {
    Outcome outcome = run_program(small(run));
    EXPECT_EQ(outcome.exit_code, valid ? 0 : 1) << outcome.err;
    Json document = parse_json(outcome.out, "output");
    EXPECT_EQ(document["items"].size(), 1u);
    Json item = document["items"][0];
    EXPECT_EQ(item["status"], "ok") << item.dump();
    EXPECT_EQ(item["valid"], valid) << item["workloads"].dump(1);
    return item;
  }

  fs::path folder_;
};

TEST_F(Eval, BadFlags) {
  EXPECT_EQ(run_program({"eval"}).exit_code, 2);
  EXPECT_EQ(run_program({"eval", "--model", "tiny-llama", "--load-format", "dummy", "--scale", "2"}).exit_code, 2);
  EXPECT_EQ(run_program({"eval", "--model", "tiny-llama", "--load-format", "dummy", "--resume"}).exit_code, 2);
  for (const char* flag : {"--model", "--tp"}) {
    Arguments twice = {"eval", "--model", "tiny-llama", "--load-format", "dummy", "--tp", "2"};
    twice.insert(twice.end(), {flag, flag == std::string("--tp") ? "2" : "tiny-llama"});
    Outcome refused = run_program(twice);
    EXPECT_EQ(refused.exit_code, 2) << flag;
    EXPECT_NE(refused.err.find("given twice"), std::string::npos) << refused.err;
  }
  Outcome nothing =
      run_program({"eval", "--model", "tiny-llama", "--load-format", "dummy", "--category", "image-encoder"});
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_NE(nothing.err.find("No model is left"), std::string::npos) << nothing.err;
}

// Where the baseline differs from itself in every workload, the score is of noise, and its line says so.
TEST(EvalReport, AScoreOfNoiseIsMarked) {
  auto workload = [](const char* kind, const char* note) {
    return Json{{"workload", kind},     {"kind", kind},         {"unit", "ms"},    {"baseline", 1},
                {"candidate", 1},       {"speedup", 1.5},       {"low", 1},        {"high", 2},
                {"verdict", "INVALID"}, {"control_error", 0.2}, {"aligned", true}, {"reason", ""},
                {"timing_note", note}};
  };
  auto printed = [&](const char* note) {
    Json item = {{"name", "a"},
                 {"model", "a"},
                 {"tp", 1},
                 {"category", "llm"},
                 {"status", "ok"},
                 {"valid", true},
                 {"aligned", 2},
                 {"checks", 2},
                 {"candidate_calls", 1},
                 {"workloads", {workload("throughput", "A/A"), workload("latency", note)}}};
    testing::internal::CaptureStdout();
    print_eval(eval_document({item}, {{"notes", Json::array()}}), {});
    std::fflush(stdout);
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_NE(printed("A/A").find("score 1.5000 (INVALID: "), std::string::npos) << printed("A/A");
  EXPECT_NE(printed("").find("score 1.5000 = "), std::string::npos) << printed("");
}

TEST_F(Eval, SlowModelsAndRanks) {
  Outcome outcome = run_program(small("run", {"--model", "tiny-qwen3", "tiny-xlm-roberta", "tiny-llada"}));
  Json document = parse_json(outcome.out, "output");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  ASSERT_EQ(document["items"].size(), 4u);
  for (const Json& item : document["items"]) EXPECT_TRUE(item["valid"]) << item.dump(1);
  EXPECT_EQ(document["score"]["categories"].size(), 3u);
  EXPECT_EQ(document["items"][3]["category"], "diffusion");
  EXPECT_EQ(document["items"][3]["workloads"][0]["unit"], "steps/s");
  EXPECT_EQ(document["score"]["macro_correctness"], 1);
  EXPECT_EQ(document["score"]["macro_coverage"], 1);
  Outcome ranks = run_program(small("ranks", {"--tp", "2"}));
  EXPECT_EQ(ranks.exit_code, 0) << ranks.err;
  EXPECT_EQ(parse_json(ranks.out, "output")["items"][0]["ranks"].size(), 2u);
  Outcome shown = run_program({"history", "--tier", "eval", "--limit", "1"});
  EXPECT_NE(shown.out.find("macro_score"), std::string::npos) << shown.out;
}

TEST_F(Eval, SlowACorrectCandidateIsValid) {
  rms_norm("1");
  Json right = item("right", true);
  EXPECT_GT(right["candidate_calls"], 0);
  EXPECT_EQ(right["aligned"], 5);
}

TEST_F(Eval, SlowAScaledOutputIsInvalid) {
  rms_norm("1.02f");
  EXPECT_EQ(item("scaled", false)["aligned"], 0);
}

// Its logits along the baseline's trajectory, and those of steps that were timed.
TEST_F(Eval, SlowADiffusionModelIsJudgedToo) {
  auto llada = [&](const std::string& factor) {
    rms_norm(factor);
    Outcome outcome =
        run_program(small("llada" + factor.substr(0, 5), {"--model", "tiny-llada", "--category", "diffusion"}));
    Json document = parse_json(outcome.out, "output");
    EXPECT_EQ(document["items"].size(), 1u);
    EXPECT_GT(document["items"][0]["candidate_calls"], 0);
    return document["items"][0];
  };
  EXPECT_EQ(llada("1.0f")["aligned"], 3);
  EXPECT_EQ(llada("1.02f")["aligned"], 0);
  // Right in the check before the timing, and wrong later.
  Json later = llada("calls > 100 ? 1.05f : 1.0f");
  EXPECT_FALSE(later["valid"]) << later.dump(1);
}

TEST_F(Eval, SlowACandidateThatIsWrongInLargeBatchesIsInvalid) {
  rms_norm("x.size(0) > 8 && x.size(0) <= 32 ? 1.05f : 1.0f");
  Json wrong = item("batches", false);
  EXPECT_LT(wrong["aligned"], 5);
}

// Wrong only after the checks before the timing.
TEST_F(Eval, SlowACandidateThatIsWrongLaterIsInvalid) {
  rms_norm("calls > 500 ? 1.05f : 1.0f");
  EXPECT_LT(item("later", false)["aligned"], 5);
}

TEST_F(Eval, SlowAFailureIsData) {
  rms_norm("1; __builtin_trap()");
  Outcome outcome = run_program(small("crash"));
  EXPECT_EQ(outcome.exit_code, 1);
  Json item = parse_json(outcome.out, "output")["items"][0];
  EXPECT_EQ(item["status"], "failed");
  EXPECT_EQ(item["stage"], "candidate 1");
  EXPECT_NE(item["error"].get<std::string>().find("signal"), std::string::npos) << item.dump();
}

TEST_F(Eval, SlowATimeoutIsAFailure) {
  Outcome outcome = run_program(small("late", {"--timeout", "0.01"}));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(parse_json(outcome.out, "output")["items"][0]["stage"], "time-out");
}

// kill -9 in the middle: what was finished is kept, the rest is measured.
TEST_F(Eval, SlowAKilledRunIsResumed) {
  Outcome killed = run_and_interrupt(
      small("killed", {"--model", "tiny-qwen3"}),
      [&] { return fs::exists(folder_ / "killed/tiny-qwen3_tp1/reference.json"); }, SIGKILL);
  EXPECT_EQ(killed.exit_code, 128 + SIGKILL);
  fs::path first = folder_ / "killed/tiny-qwen3_tp1/reference.json";
  fs::file_time_type before = fs::last_write_time(first);
  Outcome other = run_program(small("killed", {"--model", "tiny-qwen3", "--resume", "--seed", "7"}));
  EXPECT_EQ(other.exit_code, 2) << "measured in another way: " << other.err;
  Outcome again = run_program(small("killed", {"--model", "tiny-qwen3"}));
  EXPECT_EQ(again.exit_code, 2) << "there is one already";
  Outcome resumed = run_program(small("killed", {"--model", "tiny-qwen3", "--resume"}));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(fs::last_write_time(first), before);
  EXPECT_TRUE(parse_json(resumed.out, "output")["items"][0]["valid"]);
}

}  // namespace
}  // namespace fk
