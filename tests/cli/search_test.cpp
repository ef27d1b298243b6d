// The verb search: what it finds, writes and says, and bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "core/json.h"
#include "tests/cli/program.h"

namespace fk {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

fs::path empty_folder(const char* name) {
  fs::path folder = fs::path(testing::TempDir()) / name;
  fs::remove_all(folder);
  return folder;
}

TEST(SearchVerb, SlowSaysWhichCallsBecomeOneKernel) {
  Outcome first = run_program({"search", "--model", "tiny-qwen3", "--json", "--threads", "1"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  Json json = parse_json(first.out, "search");
  bool fused = false;
  for (const Json& plan : json.at("plans")) {
    EXPECT_LE(plan.at("calls_planned"), plan.at("calls"));
    for (const Json& kernel : plan.at("kernels")) {
      EXPECT_EQ(kernel.at("failure"), "") << kernel;
      EXPECT_TRUE(kernel.at("tried").get<bool>());
      EXPECT_EQ(kernel.at("timings").size(), 2u);
      fused = fused || kernel.at("calls") == "rms_norm + rms_norm + rotary_emb + store_kvcache";
    }
  }
  EXPECT_TRUE(fused);
  // What was measured is known, and gives the same plan.
  Outcome second = run_program({"search", "--model", "tiny-qwen3", "--json", "--threads", "1"});
  Json again = parse_json(second.out, "search");
  for (size_t i = 0; i < again.at("plans").size(); ++i) {
    // What noise has spoilt is measured again, and then all may change.
    std::set<std::string> noisy;
    for (const Json& kernel : json["plans"][i]["kernels"])
      for (const Json& t : kernel.at("timings"))
        if (t.at("verdict") == "INVALID") noisy.insert(kernel.at("key").get<std::string>());
    for (const Json& kernel : again["plans"][i]["kernels"])
      EXPECT_TRUE(kernel.at("known").get<bool>() || !noisy.empty()) << kernel;
    if (noisy.empty()) {
      EXPECT_EQ(again["plans"][i]["fingerprint"], json["plans"][i]["fingerprint"]);
    }
  }
  Outcome text = run_program({"search", "--model", "tiny-qwen3", "--explain", "--threads", "1"});
  EXPECT_THAT(text.out, HasSubstr("model.layers.0.self_attn.q_norm"));
  EXPECT_THAT(text.out, HasSubstr("calls of a pass become"));
  EXPECT_THAT(text.out, HasSubstr("view_of_view"));
}

TEST(SearchVerb, SlowWithWeightsWholeStepsAreTimed) {
  Outcome json_run =
      run_program({"search", "--model", "tiny-llama", "--load-format", "dummy", "--json", "--threads", "1"});
  ASSERT_EQ(json_run.exit_code, 0) << json_run.err;
  Json json = parse_json(json_run.out, "search");
  for (const char* phase : {"prefill", "decode", "mixed"}) {
    const Json& steps = json["whole_steps"][phase];
    EXPECT_EQ(steps["timings"].size(), std::string(phase) == "decode" ? 2u : 1u);
    for (const Json& t : steps["timings"]) EXPECT_GT(t["calls_ns"], 0);
  }
  Outcome text =
      run_program({"search", "--model", "tiny-llama", "--load-format", "dummy", "--explain", "--threads", "1"});
  EXPECT_THAT(text.out, HasSubstr("ms by the tree"));
  Outcome without = run_program({"search", "--model", "tiny-llama", "--explain", "--threads", "1"});
  EXPECT_THAT(without.out, HasSubstr("Whole steps were not timed"));
  EXPECT_EQ(run_program({"search", "--model", "tiny-llama", "--load-format", "else"}).exit_code, 2);
}

TEST(SearchVerb, SlowDumpsGraphsPlansAndSources) {
  fs::path folder = empty_folder("fk_search_dump");
  Outcome outcome = run_program({"search", "--model", "tiny-llama", "--no-measure", "--dump", folder.string()});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(text_of(folder / "decode.cpp"), HasSubstr("//   rotary_emb + store_kvcache"));
  EXPECT_FALSE(parse_json(text_of(folder / "decode.plan.json"), "plan").at("kernels").empty());
  EXPECT_EQ(parse_json(text_of(folder / "prefill.graph.json"), "graph").at("phase"), "prefill");
}

TEST(SearchVerb, WritesCandidatesToEdit) {
  fs::path folder = empty_folder("fk_search_candidates");
  Outcome outcome = run_program({"search", "--model", "tiny-llama", "--json", "--write-candidates", folder.string()});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  int64_t kernels = 0;
  for (const Json& row : parse_json(outcome.out, "search")) {
    bool written = fs::exists(folder / "L1" / (row.at("operator").get<std::string>() + ".cpp"));
    EXPECT_EQ(written, row.at("kernels").get<int64_t>() > 0) << row;
    kernels += row.at("kernels").get<int64_t>();
  }
  EXPECT_GE(kernels, 5);
  // The two norms of a layer are called with and without a residual.
  EXPECT_THAT(text_of(folder / "L1" / "rms_norm.cpp"), HasSubstr("residual bf16 [T, 64]"));
  Outcome again = run_program({"search", "--model", "tiny-llama", "--write-candidates", folder.string()});
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.err, HasSubstr("exists"));
}

// A candidate that no run of `kernels` has judged, and a search with it.
class SearchWithCandidate : public testing::Test {
 protected:
  SearchWithCandidate() : folder_(empty_folder("fk_search_candidate")) {
    setenv("FASTKERNELS_CANDIDATE_DIR", folder_.c_str(), 1);
    setenv("FASTKERNELS_HOME", (folder_ / "home").c_str(), 1);
  }
  ~SearchWithCandidate() override {
    for (auto& [name, value] : before_) value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
    fs::remove_all(folder_);
  }

  Outcome search(const std::string& body, const Arguments& more = {}) {
    fs::create_directories(folder_ / "L1");
    std::ofstream(folder_ / "L1" / "silu_and_mul.cpp")
        << "#include <fastkernels/candidate.h>\n#include <unistd.h>\n"
           "class SiluAndMul : public fk::SiluAndMul {\n public:\n  using fk::SiluAndMul::SiluAndMul;\n"
           "  void forward(fk::Context&, fk::View x, fk::View out) override { "
        << body << " }\n};\nFK_CANDIDATE(SiluAndMul)\n";
    Arguments arguments = {"search", "--model", "tiny-llama", "--no-measure", "--no-history", "--threads", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }

  static std::string variable(const char* name) {
    const char* value = getenv(name);
    return value == nullptr ? "" : value;
  }

  fs::path folder_;
  std::map<std::string, std::string> before_ = {{"FASTKERNELS_CANDIDATE_DIR", variable("FASTKERNELS_CANDIDATE_DIR")},
                                                {"FASTKERNELS_HOME", variable("FASTKERNELS_HOME")}};
};

TEST_F(SearchWithCandidate, SlowOneThatWasNeverJudgedIsJudgedFirst) {
  const Outcome crashes = search("volatile int* nowhere = nullptr; *nowhere = 1;");
  EXPECT_EQ(crashes.exit_code, 1);
  EXPECT_THAT(crashes.err, HasSubstr("The candidate for silu_and_mul, which was never judged before, is CRASHED in"));
  EXPECT_THAT(crashes.err, HasSubstr("--allow-incorrect"));
  const Outcome wrong = search("");
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("INCORRECT"));
  const Outcome allowed = search("", {"--allow-incorrect"});
  EXPECT_EQ(allowed.exit_code, 0) << allowed.err;
  EXPECT_THAT(allowed.err, HasSubstr("was never judged"));
  EXPECT_EQ(search("volatile int* nowhere = nullptr; *nowhere = 1;", {"--no-candidate-kernels"}).exit_code, 0);
  const Outcome right = search(R"(
    fk::with_float(x.dtype(), [&]<class T>(T) {
      for (int64_t t = 0; t < x.size(0); ++t)
        for (int64_t i = 0; i < out.size(1); ++i) {
          float gate = x.row<T>(t)[i], up = x.row<T>(t)[i + out.size(1)];
          out.row<T>(t)[i] = T(float(T(gate / (1 + __builtin_expf(-gate)))) * up);
        }
    });)");
  EXPECT_EQ(right.exit_code, 0) << right.err;
  EXPECT_THAT(right.err, testing::Not(HasSubstr("never judged")));
}

TEST_F(SearchWithCandidate, SlowOneThatHangsIsNotWaitedFor) {
  const Outcome outcome = search("for (;;) pause();");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("The candidate for silu_and_mul, which was never judged before, is "));
}

TEST(SearchVerb, WhatCannotBeLoadedIsRefusedBeforeTheSearch) {
  // Otherwise the search of these takes minutes.
  const Outcome missing = run_program({"search", "--model", "llama-3.1-70b", "--load-format", "auto", "--no-history"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("has no weights here"));
  const Outcome large = run_program({"search", "--model", "llama-3.1-70b", "--load-format", "dummy", "--no-history"});
  EXPECT_EQ(large.exit_code, 1);
  EXPECT_THAT(large.err, HasSubstr("GiB of memory free; use a smaller model"));
}

TEST_F(SearchWithCandidate, SlowClearCacheRemovesSourcesAndLibraries) {
  fs::create_directories(folder_);
  ASSERT_EQ(run_program({"search", "--model", "tiny-llama", "--no-measure", "--no-history"}).exit_code, 0);
  const fs::path cache = folder_ / "home" / "cache";
  auto count = [&](const char* inside, const char* extension) {
    int64_t n = 0;
    for (const auto& entry : fs::directory_iterator(cache / inside)) n += entry.path().extension() == extension ? 1 : 0;
    return n;
  };
  const int64_t sources = count("generated", ".cpp");
  EXPECT_GT(sources, 0);
  EXPECT_EQ(count("candidates", ".so"), sources);
  const Outcome cleared = run_program({"search", "--clear-cache"});
  EXPECT_EQ(cleared.exit_code, 0) << cleared.err;
  EXPECT_THAT(cleared.out, HasSubstr("0 measurements, " + std::to_string(sources) + " source"));
  EXPECT_THAT(cleared.out, HasSubstr(std::to_string(sources) + " compiled librar"));
  EXPECT_EQ(count("generated", ".cpp"), 0);
  EXPECT_EQ(count("candidates", ".so"), 0);
}

TEST(SearchVerb, RefusesBadInput) {
  EXPECT_EQ(run_program({"search"}).exit_code, 2);
  EXPECT_NE(run_program({"search", "--model", "no-such-model"}).exit_code, 0);
  EXPECT_EQ(run_program({"search", "--model", "tiny-llama", "--budget", "0"}).exit_code, 2);
  EXPECT_EQ(run_program({"search", "--model", "tiny-llama", "--device", "cuda"}).exit_code, 2);
  // Before a search, which takes longer.
  Outcome no_place = run_program({"search", "--model", "tiny-llama", "--dump", "/proc/nowhere"});
  EXPECT_EQ(no_place.exit_code, 1);
  EXPECT_THAT(no_place.err, HasSubstr("cannot be written"));
}

}  // namespace
}  // namespace fk
