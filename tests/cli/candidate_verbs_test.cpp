// Candidates from the user's view: stubs are written, models run with them, and a build error is printed once.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/json.h"
#include "tests/cli/kernels_fixture.h"
#include "tests/cli/program.h"
#include "tests/sanitizer.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

class CandidateVerbs : public testing::Test {
 protected:
  CandidateVerbs() {
    std::string pattern = (fs::temp_directory_path() / "fastkernels-test-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    setenv("FASTKERNELS_CANDIDATE_DIR", (folder_ / "candidate").c_str(), 1);
    setenv("FASTKERNELS_HOME", (folder_ / "home").c_str(), 1);
  }
  ~CandidateVerbs() override {
    unsetenv("FASTKERNELS_CANDIDATE_DIR");
    unsetenv("FASTKERNELS_HOME");
    fs::remove_all(folder_);
  }

  void write(const std::string& name, const std::string& text) const {
    fs::path path = folder_ / "candidate" / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  static Outcome generate(const Arguments& more = {}, const std::string& dtype = "f32") {
    Arguments arguments = {"generate", "--model",  "tiny-llama",   "--load-format", "dummy", "--dtype",
                           dtype,      "--prompt", "Hello there!", "--max-tokens",  "6",     "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }
  static void expect_failure(const Outcome& outcome, std::string_view words) {
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }

  fs::path folder_;
};

TEST_F(CandidateVerbs, StubsAreWrittenAndNeverLost) {
  Outcome first = run_program({"create-stubs", "--target", "rms_norm"});
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.out.find("L1/rms_norm.cpp written\n"), std::string::npos) << first.out;
  write("L1/rms_norm.cpp", "my work");
  Outcome second = run_program({"create-stubs", "--target", "rms_norm"});
  EXPECT_NE(second.out.find("the file that was there is now "), std::string::npos) << second.out;
  int kept = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "candidate" / "replaced"))
    if (entry.is_regular_file() && entry.file_size() == 7) ++kept;
  EXPECT_EQ(kept, 1);
}

TEST_F(CandidateVerbs, StubsAreSelected) {
  Arguments llama = {"create-stubs", "--architecture", "llama", "--level", "2", "--json"};
  Json rows = parse_json(run_program(llama).out, "output");
  std::set<std::string> names;
  for (const Json& row : rows) names.insert(row["operator"]);
  EXPECT_TRUE(names.contains("llama_mlp"));
  EXPECT_FALSE(names.contains("gemma_mlp"));
  EXPECT_FALSE(names.contains("rms_norm"));
  expect_failure(run_program({"create-stubs", "--target", "rms_nrom"}), "did you mean rms_norm");
  expect_failure(run_program({"create-stubs", "--architecture", "lama"}), "did you mean llama");
  expect_failure(run_program({"create-stubs", "--target", "rms_norm", "--level", "2"}), "leave one out");
}

TEST_F(CandidateVerbs, SlowModelsRunWithThem) {
  Json baseline = parse_json(generate().out, "output");
  EXPECT_TRUE(baseline["candidates"].empty());
  run_program({"create-stubs", "--target", "silu_and_mul"});
  run_program({"create-stubs", "--target", "llama_mlp"});
  Outcome outcome = generate({"--cxxflags", "-O1 -funroll-loops"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  Json swapped = parse_json(outcome.out, "output");
  EXPECT_EQ(swapped["token_ids"], baseline["token_ids"]);
  ASSERT_EQ(swapped["candidates"].size(), 2u);
  EXPECT_EQ(swapped["candidates"][0]["hidden"][0]["by"], "llama_mlp");
  EXPECT_EQ(swapped["candidates"][1]["active_places"], 2);
  EXPECT_EQ(swapped["cxxflags"], "-O1 -funroll-loops");
  int64_t taken = 0;
  for (const Json& d : swapped["dispatches"])
    if (d["operator"] == "llama_mlp" && d["implementation"] == "candidate") taken += d["calls"].get<int64_t>();
  EXPECT_GT(taken, 0);
  EXPECT_TRUE(parse_json(generate({"--no-candidate-kernels"}).out, "output")["candidates"].empty());

  Outcome timed = run_program({"ttft", "--model", "tiny-llama", "--load-format", "dummy", "--dtype", "f32", "--iters",
                               "1", "--no-sequential", "--cxxflags", "-O1 -funroll-loops", "--json"});
  ASSERT_EQ(timed.exit_code, 0) << timed.err;
  Json result = parse_json(timed.out, "output");
  int64_t calls = 0;
  for (const Json& d : result["dispatches"])
    if (d["operator"] == "llama_mlp" && d["implementation"] == "candidate") calls += d["calls"].get<int64_t>();
  EXPECT_GT(calls, 0);
  EXPECT_EQ(result["cxxflags"], "-O1 -funroll-loops");
}

TEST_F(CandidateVerbs, WhatIsWrongIsSaidInASentence) {
  write("L1/rms_norm.cpp", "#include <fastkernels/candidate.h>\nint x = ;\n");
  expect_failure(generate(), "L1/rms_norm.cpp:2:9: expected primary-expression");
  EXPECT_EQ(generate({"--no-candidate-kernels"}).exit_code, 0);
  write("L1/rms_norm.cpp",
        "#include <fastkernels/candidate.h>\nclass RMSNorm : public fk::RMSNorm {\n public:\n"
        "  using fk::RMSNorm::RMSNorm;\n  void forward(fk::Context&, fk::View, fk::View) override {}\n"
        "};\nFK_CANDIDATE(RMSNorm)\n");
  expect_failure(generate(), "void forward(fk::Context& ctx, fk::View x, fk::OptView residual,");
  fs::remove(folder_ / "candidate/L1/rms_norm.cpp");
  write("L2/softmax.cpp", "");
  expect_failure(generate(), "move it to L1");
}

// A stub is such a candidate: it computes in what with_float() knows.
TEST_F(CandidateVerbs, SlowRunInF16) {
  write("L1/silu_and_mul.cpp", silu_candidate("out.row<T>(t)[i] = T(gate / (1 + expf(-gate)) * up);"));
  Outcome o = generate({}, "f16");
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_EQ(parse_json(o.out, "output")["candidates"][0]["operator"], "silu_and_mul");
}

// The verdict of `kernels` is used when a model runs with the candidate later.
TEST_F(CandidateVerbs, SlowModelsAskWhetherTheyWereJudged) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  auto judge = [&] {
    return run_program({"kernels", "--target", "silu_and_mul", "--model", "tiny-llama", "--filter", "decode-8",
                        "--num-runs", "5", "--launches", "1", "--output-json", folder_ / "result.json"});
  };
  auto silu = [&](const std::string& value) {
    write("L1/silu_and_mul.cpp", silu_candidate("out.row<T>(t)[i] = T(" + value + ");"));
  };
  silu("gate / (1 + expf(-gate)) * up");
  Outcome never = generate();
  EXPECT_EQ(never.exit_code, 0) << never.err;
  EXPECT_NE(never.err.find("silu_and_mul was never judged"), std::string::npos) << never.err;
  EXPECT_EQ(parse_json(never.out, "output")["candidates"][0]["judged"], "never");
  ASSERT_EQ(judge().exit_code, 0);
  Outcome passed = generate();
  EXPECT_EQ(passed.err, "");
  EXPECT_EQ(parse_json(passed.out, "output")["candidates"][0]["judged"], "passed");
  // Other flags make another candidate of it.
  EXPECT_NE(generate({"--cxxflags=-O1"}).err.find("never judged"), std::string::npos);

  silu("2 * gate / (1 + expf(-gate)) * up");
  ASSERT_EQ(judge().exit_code, 1);
  expect_failure(generate(), "silu_and_mul was judged INCORRECT_NUMERICAL");
  EXPECT_EQ(generate({"--no-candidate-kernels"}).exit_code, 0);
  Outcome allowed = generate({"--allow-incorrect"});
  EXPECT_EQ(allowed.exit_code, 0) << allowed.err;
  EXPECT_EQ(parse_json(allowed.out, "output")["candidates"][0]["judged"], "failed");
  EXPECT_EQ(parse_json(allowed.out, "output")["candidates"][0]["verdict"], "INCORRECT_NUMERICAL");

  Arguments ttft = {"ttft",    "--model", "tiny-llama",      "--load-format", "dummy",
                    "--iters", "1",       "--no-sequential", "--no-floors"};
  expect_failure(run_program(ttft), "--allow-incorrect");
  ttft.push_back("--allow-incorrect");
  Outcome timed = run_program(ttft);
  EXPECT_NE(timed.out.find("silu_and_mul judged INCORRECT_NUMERICAL"), std::string::npos) << timed.out << timed.err;
  Outcome shown = run_program({"history", "show", "last", "--json"});
  EXPECT_NE(shown.out.find("\"candidates_judged\": \"failed\""), std::string::npos) << shown.out;
}

// `ttft --compare`: one candidate that changes nothing, since it refuses every call, and one that is slow.
TEST_F(CandidateVerbs, SlowCompareSaysWhetherTheModelIsFaster) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsFullSpeed);
  auto silu = [&](const std::string& members) {
    write("L1/silu_and_mul.cpp", R"(#include <fastkernels/candidate.h>
#include <math.h>
class SiluAndMul : public fk::SiluAndMul {
 public:
  using fk::SiluAndMul::SiluAndMul;
)" + members + "};\nFK_CANDIDATE(SiluAndMul)\n");
  };
  auto compare = [&](const Arguments& more) {
    Arguments arguments = {"ttft", "--model", "tiny-llama", "--load-format", "dummy", "--compare", "--threads", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  };
  EXPECT_NE(compare({}).err.find("create-stubs"), std::string::npos)
      << "without candidates there is nothing to compare";
  EXPECT_EQ(compare({"--no-candidate-kernels"}).exit_code, 2);
  silu(R"(  const char* refuse(fk::Args) const override { return "not today"; }
  void forward(fk::Context&, fk::View, fk::View) override {}
)");
  // On a busy machine it may be unresolved, and a difference without meaning is measured again; it must never be FASTER
  // than itself.
  double least = 0;
  for (int attempt = 0; attempt < 4 && least <= 0.8; ++attempt) {
    Outcome same = compare({"--json"});
    ASSERT_EQ(same.exit_code, 0) << same.err;
    Json json = parse_json(same.out, "output");
    EXPECT_EQ(json["candidate_calls"], 0);
    ASSERT_FALSE(json["results"].empty());
    least = 1;
    for (const Json& row : json["results"]) {
      EXPECT_NE(row["verdict"], "FASTER") << row.dump();
      EXPECT_NE(row["verdict"], "SLOWER") << row.dump();
      least = std::min(least, row["speedup"].get<double>());
    }
  }
  EXPECT_GT(least, 0.8);
  silu(R"(  void forward(fk::Context&, fk::View x, fk::View out) override {
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
  Outcome slower;
  for (int attempt = 0; attempt < 4 && slower.out.find("SLOWER") == std::string::npos; ++attempt) {
    slower = compare({"--rounds", "3", "--csv"});
    ASSERT_EQ(slower.exit_code, 0) << slower.err;
    EXPECT_EQ(slower.out.find("FASTER"), std::string::npos) << slower.out;
  }
  EXPECT_NE(slower.out.find("SLOWER"), std::string::npos) << slower.out;
  Outcome shown = run_program({"history", "show", "last", "--json"});
  EXPECT_NE(shown.out.find("tpot_speedup_low"), std::string::npos) << shown.out;
}

// A plan uses candidates where the tree does; one for a composition is one step, and hides those of its parts.
TEST_F(CandidateVerbs, SlowPlansUseCandidates) {
  auto compiled = [&](const Arguments& more = {}) {
    Arguments arguments = {
        "ttft",    "--model", "tiny-llama",      "--load-format", "dummy",        "--path", "compiled",
        "--iters", "1",       "--no-sequential", "--no-floors",   "--no-history", "--json", "--no-generated-kernels"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.exit_code == 0 ? parse_json(outcome.out, "output") : Json();
  };
  auto candidate_calls = [](const Json& json, const std::string& op) {
    int64_t calls = 0;
    for (const Json& d : json["dispatches"])
      if (d["operator"] == op && d["implementation"] == "candidate") calls += d["calls"].get<int64_t>();
    return calls;
  };
  ASSERT_EQ(run_program({"create-stubs", "--target", "silu_and_mul"}).exit_code, 0);
  Json with_part = compiled();
  EXPECT_GT(candidate_calls(with_part, "silu_and_mul"), 0);
  EXPECT_EQ(with_part["plan"]["decode"]["steps"], 25);
  ASSERT_EQ(run_program({"create-stubs", "--target", "llama_mlp"}).exit_code, 0);
  Json with_both = compiled();
  EXPECT_GT(candidate_calls(with_both, "llama_mlp"), 0);
  EXPECT_EQ(candidate_calls(with_both, "silu_and_mul"), 0);
  EXPECT_EQ(with_both["plan"]["decode"]["steps"], 25 - 2 * 2);  // two layers, with one call instead of three
  Json without = compiled({"--no-candidate-kernels"});
  EXPECT_EQ(candidate_calls(without, "llama_mlp"), 0);
  EXPECT_EQ(without["plan"]["decode"]["steps"], 25);
}

TEST_F(CandidateVerbs, CudaStubsNeedNoGpu) {
  Outcome outcome = run_program({"create-stubs", "--device", "cuda", "--target", "rms_norm"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(folder_ / "candidate/L1/rms_norm.cu"));
  outcome = run_program({"create-stubs", "--device", "cuda", "--target", "llama_mlp"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("no naive CUDA body for llama_mlp"), std::string::npos) << outcome.err;
  // On the CPU a candidate for another device has no effect.
  outcome = run_program({"kernels", "--device", "cpu", "--target", "rms_norm"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("--device cuda"), std::string::npos) << outcome.err;
  EXPECT_EQ(generate().exit_code, 0);
}

TEST_F(CandidateVerbs, SlowProfileSaysWhatItKnowsWithoutTools) {
  std::string out = (folder_ / "profile").string();
  Arguments arguments = {"profile", "--target", "rms_norm", "--scenario", "decode-8", "--threads", "1", "--out", out};
  Outcome outcome = run_program(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  // The data fits in a cache: which of the two is slower depends on the processor.
  EXPECT_TRUE(outcome.out.find("us, set by memory.") != std::string::npos ||
              outcome.out.find("us, set by arithmetic.") != std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("There is no candidate for rms_norm"), std::string::npos) << outcome.out;
  run_program({"create-stubs", "--target", "rms_norm"});
  arguments.push_back("--json");
  outcome = run_program(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  Json said = parse_json(outcome.out, "profile");
  EXPECT_EQ(said["sides"].size(), 2u);
  EXPECT_EQ(said["sides"][1]["implementation"], "candidate");
  EXPECT_GT(said["sides"][1]["time_ns"], 0);
  EXPECT_EQ(run_program({"profile", "--target", "rms_nrom"}).exit_code, 1);
  // Without arithmetic only memory is left.
  outcome = run_program({"profile", "--target", "embedding", "--scenario", "decode-8", "--threads", "1", "--out", out});
  EXPECT_NE(outcome.out.find("set by memory."), std::string::npos) << outcome.out << outcome.err;
  outcome = run_program({"profile", "--target", "rms_norm", "--scenario", "nowhere"});
  EXPECT_NE(outcome.err.find("'nowhere'"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace fk
