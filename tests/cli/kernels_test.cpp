// `kernels` as a user meets it: a stub passes, mistakes get their verdict, and nothing measured is lost.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "core/json.h"
#include "tests/cli/program.h"

namespace fk {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

class KernelsVerb : public testing::Test {
 protected:
  KernelsVerb() {
    std::string pattern = (fs::temp_directory_path() / "fastkernels-test-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    setenv("FASTKERNELS_CANDIDATE_DIR", (folder_ / "candidate").c_str(), 1);
    setenv("FASTKERNELS_HOME", (folder_ / "home").c_str(), 1);
  }
  ~KernelsVerb() override {
    unsetenv("FASTKERNELS_CANDIDATE_DIR");
    unsetenv("FASTKERNELS_HOME");
    fs::remove_all(folder_);
  }

  std::string result_path() const { return folder_ / "result.json"; }
  Json result() const { return parse_json_file(result_path()); }

  // Few pairs: what is tested is the way there and back, not the statistics.
  Outcome kernels(const Arguments& more, const Arguments& size = {"--num-runs", "10", "--launches", "2"}) const {
    Arguments arguments = {"kernels", "--model", "tiny-llama", "--threads", "1", "--output-json", result_path()};
    arguments.insert(arguments.end(), size.begin(), size.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }
  void write(const std::string& name, const std::string& text) const {
    fs::path path = folder_ / "candidate" / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void write_silu(const std::string& body) const {
    write("L1/silu_and_mul.cpp", R"(#include <fastkernels/candidate.h>
#include <math.h>
class SiluAndMul : public fk::SiluAndMul {
 public:
  using fk::SiluAndMul::SiluAndMul;
  void forward(fk::Context&, fk::View x, fk::View out) override {
    fk::with_float(x.dtype(), [&]<class T>(T) {
      int64_t D = out.size(1);
      for (int64_t t = 0; t < x.size(0); ++t)
        for (int64_t i = 0; i < D; ++i) {
          float gate = x.row<T>(t)[i], up = x.row<T>(t)[D + i];
)" + body + R"(
        }
    });
  }
};
FK_CANDIDATE(SiluAndMul)
)");
  }

  fs::path folder_;
};

constexpr const char* kRight = "out.row<T>(t)[i] = T(gate / (1 + expf(-gate)) * up);";

TEST_F(KernelsVerb, AStubPassesAndItsResultFollowsTheSchema) {
  ASSERT_EQ(run_program({"create-stubs", "--target", "silu_and_mul"}).exit_code, 0);
  Outcome o = kernels({"--filter", "tiny-llama/tp1/decode-8", "--explain"});
  EXPECT_EQ(o.exit_code, 0) << o.err << o.out;
  EXPECT_NE(o.out.find("PASSED"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("1/1 passed, geometric mean"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("% of the floor"), std::string::npos) << o.out;
  Json r = result();
  ASSERT_EQ(r["results"].size(), 1u);
  const Json& one = r["results"][0];
  EXPECT_EQ(one["verdict"], "PASSED");
  EXPECT_EQ(one["timing"]["samples"].size(), 2u);
  EXPECT_EQ(one["timing"]["pairs"], 10);
  EXPECT_GT(one["judgement"]["checks"].get<int>(), 10);
  EXPECT_FALSE(fs::exists(result_path() + "l")) << "the journal of a finished run stays";

  // By somebody else's reading of the schema.
  std::string check = "import json,jsonschema;jsonschema.Draft202012Validator(json.load(open('" FK_SOURCE_DIR
                      "/docs/kernels.schema.json'))).validate(json.load(open('" +
                      result_path() + "')))";
  if (system("/usr/bin/python3 -c 'import jsonschema' 2>/dev/null") != 0) GTEST_SKIP() << "no python3-jsonschema here";
  EXPECT_EQ(system(("/usr/bin/python3 -c \"" + check + "\"").c_str()), 0);
}

TEST_F(KernelsVerb, AWrongCandidateIsRefusedWithAWayToSeeItAgain) {
  write_silu("out.row<T>(t)[i] = T(gate / (1 + expf(-gate)) * up + (t == x.size(0) - 1 && i == D - 1 ? 1 : 0));");
  Outcome o = kernels({"--filter", "tiny-llama/tp1/decode-8"});
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_NE(o.err.find("1 of 1 scenarios did not pass"), std::string::npos) << o.err;
  Json one = result()["results"][0];
  EXPECT_EQ(one["verdict"], "INCORRECT_NUMERICAL") << one.dump(1);
  EXPECT_FALSE(one.contains("timing")) << "a wrong candidate has no speed";
  EXPECT_EQ(result()["aggregate"]["operators"]["silu_and_mul"]["credit"], 0.0);

  auto repro = one["repro"].get<std::string>();
  size_t at = repro.find("--repro ");
  ASSERT_NE(at, std::string::npos) << repro;
  Outcome again = kernels({"--filter", "tiny-llama/tp1/decode-8", "--repro", repro.substr(at + 8)});
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_EQ(result()["results"][0]["sentence"], one["sentence"]) << "the same seed judges the same calls";
}

TEST_F(KernelsVerb, ACandidateThatDoesNotBuildIsAVerdict) {
  write_silu("out.row<T>(t)[i] = T(gate / (1 + expf(-gate)) * up)");  // no semicolon
  Outcome o = kernels({"--filter", "tiny-llama/tp1/decode-8"});
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_NE(o.out.find("BUILD_ERROR"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("silu_and_mul.cpp:"), std::string::npos) << o.out;
}

// A comment in Latin-1, in front of a mistake that the compiler quotes.
TEST_F(KernelsVerb, SourcesNeedNotBeUtf8) {
  write_silu("/* caf\xe9 */ out.row<T>(t)[i] = T(gate / (1 + expf(-gate)) * up)");  // no semicolon
  Outcome o = kernels({"--filter", "tiny-llama/tp1/decode-8"});
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_NE(o.err.find("1 of 1 scenarios did not pass"), std::string::npos) << o.err;
  EXPECT_EQ(o.err.find("warning"), std::string::npos) << o.err;
  EXPECT_NE(result()["candidates"][0]["source"].get<std::string>().find("caf\xef\xbf\xbd"), std::string::npos);
}

TEST_F(KernelsVerb, OneBadCandidateDoesNotEndTheSweep) {
  write_silu(kRight);
  write("L1/rms_norm.cpp", R"(#include <fastkernels/candidate.h>
class RMSNorm : public fk::RMSNorm {
 public:
  using fk::RMSNorm::RMSNorm;
  void forward(fk::Context&, fk::View, fk::OptView, fk::View, fk::OptView) override { __builtin_trap(); }
};
FK_CANDIDATE(RMSNorm)
)");
  Outcome o = kernels({"--filter", "tiny-llama/tp1/decode-8"});
  EXPECT_EQ(o.exit_code, 1);
  std::map<std::string, std::string> verdicts;
  Json r = result();
  for (const Json& one : r["results"]) verdicts[one["operator"]] = one["verdict"];
  EXPECT_EQ(verdicts["rms_norm"], "CRASHED");
  EXPECT_EQ(verdicts["silu_and_mul"], "PASSED");
}

TEST_F(KernelsVerb, ResumeTakesOverWhatIsStillTrue) {
  write_silu(kRight);
  ASSERT_EQ(kernels({"--filter", "tiny-llama/tp1/decode-8"}).exit_code, 0);
  Json first = result()["results"][0];
  std::ofstream(result_path() + "l") << first.dump() << "\n{\"cut short";
  ASSERT_EQ(kernels({"--filter", "tiny-llama/tp1/decode-8", "--resume"}).exit_code, 0);
  EXPECT_EQ(result()["results"][0], first) << "measured again although nothing changed";

  std::ofstream(result_path() + "l") << first.dump() << "\n";
  write_silu(std::string(kRight) + " // another candidate");
  ASSERT_EQ(kernels({"--filter", "tiny-llama/tp1/decode-8", "--resume"}).exit_code, 0);
  EXPECT_NE(result()["results"][0]["candidate"], first["candidate"]) << "taken over from another candidate";
}

TEST_F(KernelsVerb, ControlCKeepsWhatWasMeasured) {
  write_silu(kRight);
  Arguments arguments = {"kernels",    "--model", "tiny-llama",    "--threads",  "1",
                         "--num-runs", "10",      "--output-json", result_path()};
  auto measured = [&] {
    std::ifstream journal(result_path() + "l");
    std::string text{std::istreambuf_iterator<char>(journal), {}};
    return text.find("{\"operator\"") != std::string::npos;
  };
  Outcome o = run_and_interrupt(arguments, measured);
  EXPECT_EQ(o.exit_code, 1) << o.err;
  EXPECT_NE(o.err.find("Interrupted after"), std::string::npos) << o.err;
  Json r = result();
  EXPECT_EQ(r["interrupted"], true);
  EXPECT_FALSE(r["results"].empty());
  for (const Json& one : r["results"]) EXPECT_EQ(one["verdict"], "PASSED") << one["sentence"];
  EXPECT_TRUE(fs::exists(result_path() + "l")) << "nothing left to resume from";
}

TEST_F(KernelsVerb, TheBaselinePassesAsItsOwnCandidate) {
  Outcome o = kernels({"--self-test", "--target", "silu_and_mul", "--filter", "tiny-llama/tp1/decode-8"});
  EXPECT_EQ(o.exit_code, 0) << o.err << o.out;
}

TEST_F(KernelsVerb, BadInputIsOneSentence) {
  auto expect = [&](const Arguments& more, int code, std::string_view words) {
    Outcome o = kernels(more);
    EXPECT_EQ(o.exit_code, code) << o.err;
    EXPECT_NE(o.err.find(words), std::string::npos) << o.err;
    EXPECT_EQ(o.out, "");
  };
  expect({}, 1, "create-stubs");  // an empty folder says how to start
  expect({"--target", "rms_nrom"}, 1, "rms_norm");
  expect({"--target", "silu_and_mul"}, 1, "create-stubs");
  expect({"--self-test", "--target", "silu_and_mul", "--filter", "no such scenario"}, 1, "No scenario matches");
  expect({"--self-test", "--target", "silu_and_mul", "--repro", "tomorrow"}, 2, "SEED:CALL");
  expect({"--self-test", "--target", "silu_and_mul", "--num-runs", "-3"}, 2, "--num-runs");
  std::ofstream(folder_ / "bad.yaml") << "rms_norm:\n  - name: [unclosed\n";
  expect({"--self-test", "--target", "rms_norm", "--scenarios", folder_ / "bad.yaml"}, 1, "bad.yaml:");
  EXPECT_NE(run_program({"kernels", "--self-test", "--target", "silu_and_mul", "--resume"}).err.find("--output-json"),
            std::string::npos);
}

}  // namespace
}  // namespace fk
