// `kernels` from the user's view: a stub passes, mistakes get their verdict, and no result is lost.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "core/memory.h"
#include "models/safetensors_writer.h"
#include "tests/cli/kernels_fixture.h"
#include "tests/sanitizer.h"

namespace fk {
namespace {

TEST_F(KernelsVerb, SlowAStubPassesAndItsResultFollowsTheSchema) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  ASSERT_EQ(run_program({"create-stubs", "--target", "silu_and_mul"}).exit_code, 0);
  Outcome o = kernels({"--filter", "tiny-llama/tp1/decode-8", "--explain"});
  EXPECT_EQ(o.exit_code, 0) << o.err << o.out;
  EXPECT_NE(o.out.find("PASSED"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("1/1 passed"), std::string::npos) << o.out;
  Json r = result();
  ASSERT_EQ(r["results"].size(), 1u);
  const Json& one = r["results"][0];
  // On a busy machine so many pairs may be left out that nothing can be ranked; then it must say so.
  if (one["timing"]["invalid"] == "")
    EXPECT_NE(o.out.find("1/1 passed, geometric mean"), std::string::npos) << o.out;
  else
    EXPECT_NE(o.out.find("1/1 passed, 1 not ranked"), std::string::npos) << o.out;
  if (one["timing"].contains("speedup")) {
    EXPECT_NE(o.out.find("% of the floor"), std::string::npos) << o.out;
    EXPECT_TRUE(o.out.find("), warm ") != std::string::npos ||
                o.out.find("caches were not timed: ") != std::string::npos)
        << "--explain without cold against warm: " << o.out;
    EXPECT_GT(one["gbps"], 0);
  }
  EXPECT_EQ(one["verdict"], "PASSED");
  EXPECT_GE(one["timing"]["samples"].size(), 2u);
  EXPECT_GE(one["timing"]["pairs"], 10);
  for (const char* side : {"baseline", "candidate"}) {
    const Json& ran = one["timing"]["dispatches"][side];
    ASSERT_EQ(ran.size(), 1u) << side;
    EXPECT_EQ(ran[0]["operator"], "silu_and_mul");
    EXPECT_EQ(ran[0]["implementation"] == "candidate", side == std::string("candidate")) << ran.dump();
    EXPECT_GE(ran[0]["calls"], one["timing"]["pairs"]);
  }
  // Pairs that a busy machine disturbed are measured again, and not all of them are disturbed once more.
  EXPECT_LE(one["timing"]["pairs"].get<int>() - one["timing"]["pairs_dropped"].get<int>(), 2 * 40)
      << "launches are not cut short";
  EXPECT_GT(one["judgement"]["checks"].get<int>(), 10);
  EXPECT_FALSE(fs::exists(result_path() + "l")) << "the journal of a finished run stays";

  expect_schema();
}

TEST_F(KernelsVerb, SlowAWrongCandidateIsRefusedWithAWayToSeeItAgain) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  write_silu("out.row<T>(t)[i] = T(gate / (1 + expf(-gate)) * up + (t == x.size(0) - 1 && i == D - 1 ? 1 : 0));");
  Outcome o = kernels({"--filter", "tiny-llama/tp1/decode-8"});
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_NE(o.err.find("1 of 1 scenarios did not pass"), std::string::npos) << o.err;
  Json one = result()["results"][0];
  EXPECT_EQ(one["verdict"], "INCORRECT_NUMERICAL") << one.dump(1);
  EXPECT_FALSE(one.contains("timing")) << "a wrong candidate has no speed";
  EXPECT_EQ(result()["aggregate"]["operators"]["silu_and_mul"]["credit"], 0.0);
  // Only the last element is wrong: the picture and the sentence both show where.
  const Json& mismatch = one["mismatch"];
  EXPECT_EQ(mismatch["output"], "'out'");
  EXPECT_GT(mismatch["grid"].back().back(), 0);
  EXPECT_EQ(mismatch["grid"][0][0], 0);
  EXPECT_NE(mismatch["pattern"].get<std::string>().find(", the last of "), std::string::npos) << mismatch.dump();
  EXPECT_NE(o.out.find(mismatch["pattern"].get<std::string>()), std::string::npos) << o.out;
  expect_schema();

  auto repro = one["repro"].get<std::string>();
  size_t at = repro.find("--repro ");
  ASSERT_NE(at, std::string::npos) << repro;
  Outcome again = kernels({"--filter", "tiny-llama/tp1/decode-8", "--repro", repro.substr(at + 8)});
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_EQ(result()["results"][0]["sentence"], one["sentence"]) << "the same seed judges the same calls";
}

TEST_F(KernelsVerb, SlowRowsThatNobodyWroteAreCalledSo) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  write_silu("if (t + 1 < x.size(0) || t == 0) out.row<T>(t)[i] = T(gate / (1 + expf(-gate)) * up);");
  Outcome o = kernels({"--filter", "tiny-llama/tp1/decode-8"});
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_NE(o.out.find("They were never written."), std::string::npos) << o.out;
}

TEST_F(KernelsVerb, SlowAFaultHasItsLine) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  write_silu("\nout.row<T>(t)[i + (int64_t{1} << 20)] = T(gate / (1 + expf(-gate)) * up);");
  Outcome o = kernels({"--filter", "tiny-llama/tp1/decode-8"});
  EXPECT_EQ(o.exit_code, 1);
  std::string place = "L1/silu_and_mul.cpp:13";
  EXPECT_NE(result()["results"][0]["sentence"].get<std::string>().find(place), std::string::npos) << o.out;
}

// The candidate's output is shown only if one call is repeated; --in-process makes the same calls.
TEST_F(KernelsVerb, SlowARepeatedCallShowsWhatIsPrintedAndWarningsAreShown) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  write_silu(R"(int unused_number = 3;
if (i == 0) printf("row %d\033[2J\n", int(t));
out.row<T>(t)[i] = T(2 * gate / (1 + expf(-gate)) * up);)");
  fs::path source = folder_ / "candidate/L1/silu_and_mul.cpp";
  std::ifstream file(source);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  write("L1/silu_and_mul.cpp", "#include <stdio.h>\n" + text);
  Outcome o = kernels({"--filter", "tiny-llama/tp1/decode-8"});
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_NE(o.err.find("unused variable"), std::string::npos) << o.err;
  EXPECT_EQ(o.err.find("row 0"), std::string::npos) << o.err;
  EXPECT_NE(o.out.find("Each of them is 2 times what it should be."), std::string::npos) << o.out;
  auto repro = result()["results"][0]["repro"].get<std::string>();
  Arguments again = {"--filter", "tiny-llama/tp1/decode-8", "--repro", repro.substr(repro.find("--repro ") + 8)};
  Outcome repeated = kernels(again);
  EXPECT_NE(repeated.err.find("row 0\\x1b[2J\n"), std::string::npos) << repeated.err;
  EXPECT_NE(repeated.err.find("unused variable"), std::string::npos) << "a build from the cache has its warnings too";
  EXPECT_NE(result()["results"][0]["printed"].get<std::string>().find("row 0"), std::string::npos);
  expect_schema();
  auto sentence = result()["results"][0]["sentence"].get<std::string>();
  again.push_back("--in-process");
  Outcome here = kernels(again);
  EXPECT_EQ(here.exit_code, 1) << here.err;
  EXPECT_NE((here.out + here.err).find("row 0"), std::string::npos);
  EXPECT_EQ(result()["results"][0]["sentence"], sentence);
  EXPECT_EQ(kernels({"--in-process"}).exit_code, 2);
}

TEST_F(KernelsVerb, ACandidateThatDoesNotBuildIsAVerdict) {
  write_silu("out.row<T>(t)[i] = T(gate / (1 + expf(-gate)) * up)");  // no semicolon
  Outcome o = kernels({"--filter", "tiny-llama/tp1/decode-8"});
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_NE(o.out.find("BUILD_ERROR"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("silu_and_mul.cpp:"), std::string::npos) << o.out;
}

TEST_F(KernelsVerb, WithoutACompilerNobodyIsJudged) {
  write_silu("out.row<T>(t)[i] = T(gate / (1 + expf(-gate)) * up);");
  setenv("CXX", "/nowhere/c++", 1);
  Outcome outcome = kernels({"--target", "silu_and_mul", "--filter", "tiny-llama/tp1/decode-8"});
  unsetenv("CXX");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("/nowhere/c++"), std::string::npos) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_FALSE(fs::exists(result_path())) << "nothing was measured";
}

// A comment in Latin-1, in front of a mistake that the compiler quotes.
TEST_F(KernelsVerb, SlowSourcesNeedNotBeUtf8) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  write_silu("/* caf\xe9 */ out.row<T>(t)[i] = T(gate / (1 + expf(-gate)) * up)");  // no semicolon
  Outcome o = kernels({"--filter", "tiny-llama/tp1/decode-8"});
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_NE(o.err.find("1 of 1 scenarios did not pass"), std::string::npos) << o.err;
  EXPECT_EQ(o.err.find("warning"), std::string::npos) << o.err;
  EXPECT_NE(result()["candidates"][0]["source"].get<std::string>().find("caf\xef\xbf\xbd"), std::string::npos);
}

TEST_F(KernelsVerb, SlowOneBadCandidateDoesNotEndTheSweep) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
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

TEST_F(KernelsVerb, SlowResumeTakesOverWhatIsStillTrue) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
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

TEST_F(KernelsVerb, SlowControlCKeepsWhatWasMeasured) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
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

TEST_F(KernelsVerb, SlowTheBaselinePassesAsItsOwnCandidate) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
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

// The keys that qwen3 norms lie between the queries and values of their token.
TEST_F(KernelsVerb, SlowACapturedScenarioIsJudgedWithItsStrides) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  std::string scenarios = folder_ / "run.yaml";
  ASSERT_EQ(run_program({"capture", "--model", "tiny-qwen3", "--load-format", "dummy", "--prompt-tokens", "9",
                         "--decode-tokens", "1", "--out", scenarios})
                .exit_code,
            0);
  auto judge = [&](const std::string& row) {
    write("L1/rms_norm.cpp", R"(#include <fastkernels/candidate.h>
#include <math.h>
class RMSNorm : public fk::RMSNorm {
 public:
  using fk::RMSNorm::RMSNorm;
  void forward(fk::Context&, fk::View x, fk::OptView, fk::View out, fk::OptView) override {
    fk::with_float(x.dtype(), [&]<class T>(T) {
      int64_t H = x.size(1), D = x.size(2);
      for (int64_t t = 0; t < x.size(0); ++t)
        for (int64_t h = 0; h < H; ++h) {
          const T* row = )" + row +
                                 R"( + h * D;
          double sum = 0;
          for (int64_t i = 0; i < D; ++i) sum += double(row[i]) * double(row[i]);
          double scale = 1 / sqrt(sum / double(D) + init_.eps);
          for (int64_t i = 0; i < D; ++i)
            out.row<T>(t)[h * D + i] = T(float(double(row[i]) * scale * double(weight("weight").ptr<T>()[i])));
        }
    });
  }
};
FK_CANDIDATE(RMSNorm)
)");
    Outcome o = kernels({"--scenarios", scenarios, "--model", "tiny-qwen3", "--filter", "prefill-9/k_norm"});
    EXPECT_EQ(result()["results"].size(), 1u) << o.err;
    return result()["results"][0];
  };
  Json right = judge("x.row<T>(t)");
  EXPECT_EQ(right["verdict"], "PASSED") << right["sentence"];
  EXPECT_EQ(right["inputs"]["x"]["strides"].size(), 3u);
  Json dense = judge("(x.ptr<T>() + t * H * D)");
  EXPECT_EQ(dense["verdict"], "INCORRECT_NUMERICAL") << dense["sentence"];
  EXPECT_NE(dense["repro"].get<std::string>().find("--scenarios " + scenarios), std::string::npos) << dense["repro"];
}

TEST_F(KernelsVerb, SlowGoldenValuesReachTheCandidate) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  Tensor ids({6}, DType::kI64);
  std::fill_n(ids.ptr<int64_t>(), 6, 7);
  write_safetensors(folder_ / "real.safetensors", {{"ids", ids}});
  std::ofstream(folder_ / "real.yaml")
      << "embedding:\n  - name: real\n    init: {num_embeddings: 64, embedding_dim: 8}\n"
         "    workload: {sequences: [[6, 0]]}\n"
         "    inputs:\n      input_ids: {golden: \"real.safetensors#ids\"}\n";
  write("L1/embedding.cpp", R"(#include <fastkernels/candidate.h>
class Embedding : public fk::Embedding {
 public:
  using fk::Embedding::Embedding;
  void forward(fk::Context&, fk::View ids, fk::View out) override {
    fk::with_float(out.dtype(), [&]<class T>(T) {
      bool real = true;
      for (int64_t t = 0; t < ids.size(0); ++t) real = real && ids.ptr<int64_t>()[t] == 7;
      for (int64_t t = 0; t < ids.size(0); ++t)
        for (int64_t i = 0; i < out.size(1); ++i)
          out.row<T>(t)[i] = real ? T(3.0f) : weight("weight").row<T>(ids.ptr<int64_t>()[t])[i];
    });
  }
};
FK_CANDIDATE(Embedding)
)");
  Arguments arguments = {"kernels", "--scenarios",   folder_ / "real.yaml", "--threads",
                         "1",       "--output-json", result_path()};
  run_program(arguments);
  Json one = result()["results"][0];
  EXPECT_EQ(one["verdict"], "INCORRECT_NUMERICAL") << one.dump(1);
  EXPECT_NE(one["sentence"].get<std::string>().find("the scenario's own values"), std::string::npos) << one["sentence"];
  fs::remove(folder_ / "real.safetensors");
  run_program(arguments);
  one = result()["results"][0];
  EXPECT_EQ(one["verdict"], "INVALID_TASK") << "a scenario whose file is gone ends the sweep, or passes";
  EXPECT_NE(one["sentence"].get<std::string>().find("real.safetensors"), std::string::npos) << one["sentence"];
}

TEST_F(KernelsVerb, SlowARefusalIsFoundBeforeAnythingIsCalled) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  write_silu(kRight);
  fs::path path = folder_ / "candidate/L1/silu_and_mul.cpp";
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::string source = text.str(), before = "  void forward(";
  source.insert(source.find(before), R"(  const char* refuse(fk::Args args) const override {
    return args[0].size(0) > 31 ? "at most 31 rows" : nullptr;
  }
)");
  std::ofstream(path) << source;
  Outcome o = kernels({"--filter", "tiny-llama/tp1/decode-32"});
  Json one = result()["results"][0];
  EXPECT_EQ(one["verdict"], "REFUSED") << one.dump(1);
  EXPECT_NE(one["sentence"].get<std::string>().find("at most 31 rows"), std::string::npos) << one["sentence"];
  EXPECT_EQ(one["judgement"]["calls"], 0);
  o = kernels({"--check", "--filter", "tiny-llama/tp1/decode-8"});
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
}

TEST_F(KernelsVerb, TheMapSaysWhoIsMadeOfWhat) {
  write_silu(kRight);
  Outcome o = run_program({"kernels", "--map", "--category", "llm", "--json"});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  Json map = parse_json(o.out, "output");
  auto row = [](const Json& table, const char* key, const char* name) {
    for (const Json& r : table)
      if (r[key] == name) return r;
    return Json();
  };
  auto holds = [](const Json& list, const char* name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  EXPECT_TRUE(holds(row(map["models"], "model", "gemma3-1b")["operators"], "gemma_mlp"));
  EXPECT_FALSE(holds(row(map["models"], "model", "llama-3.2-1b")["operators"], "gemma_mlp"));
  EXPECT_EQ(row(map["models"], "model", "llama-3.2-1b")["category"], "llm");
  Json silu = row(map["operators"], "operator", "silu_and_mul");
  EXPECT_TRUE(holds(silu["models"], "qwen3-8b"));
  EXPECT_FALSE(holds(silu["models"], "gemma3-1b"));
  EXPECT_TRUE(silu["candidate"].is_string()) << silu;
  EXPECT_TRUE(row(map["operators"], "operator", "rms_norm")["candidate"].is_null());

  map = parse_json(run_program({"kernels", "--map", "--model", "qwen3", "--level", "3", "--json"}).out, "output");
  EXPECT_GE(map["models"].size(), 3u);
  for (const Json& model : map["models"]) EXPECT_EQ(model["model"].get<std::string>().substr(0, 5), "qwen3") << model;
  EXPECT_TRUE(row(map["operators"], "operator", "silu_and_mul").is_null());
  EXPECT_NE(run_program({"kernels", "--map"}).out.find("OPERATORS"), std::string::npos);
}

TEST_F(KernelsVerb, SlowCategoriesSelectModels) {
  write_silu(kRight);
  Outcome o = run_program({"kernels", "--list", "--category", "llm", "--tp", "1", "--filter", "decode-8", "--csv"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_NE(o.out.find("qwen3-8b"), std::string::npos) << "more than the default model: " << o.out;
  o = run_program({"kernels", "--list", "--category", "llm", "--model", "qwen3-8b", "--filter", "decode-8", "--csv"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_EQ(o.out.find("llama-3.1-70b/"), std::string::npos) << o.out;
  o = run_program({"kernels", "--list", "--category", "diffusion"});
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_NE(o.err.find("'diffusion'"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("llm"), std::string::npos) << o.err;
}

}  // namespace
}  // namespace fk
