// `kernels` again: the --repro command of a verdict, resumed runs, and files that cannot be written.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "tests/cli/kernels_fixture.h"
#include "tests/sanitizer.h"

namespace fk {
namespace {

// As a user does: pasted into a shell, in another folder, in which `fastkernels` is on the PATH.
TEST_F(KernelsVerb, SlowTheCommandOfAVerdictRepeatsItFromAnyShell) {
  fs::path folder = folder_ / "two words and 'quotes'";
  setenv("FASTKERNELS_CANDIDATE_DIR", folder.c_str(), 1);
  fs::create_directories(folder);
  fs::create_symlink(folder, folder_ / "candidate");
  write_silu(kWrongSilu);
  Outcome o = kernels({"--tp", "2", "--filter", "tp2/decode-8", "--cxxflags", "-DTWO_WORDS -DHERE"});
  Json one = result()["results"][0];
  ASSERT_EQ(one["verdict"], "INCORRECT_NUMERICAL") << o.out << o.err;
  std::string again = folder_ / "again.json";
  std::string line = "cd / && unset FASTKERNELS_CANDIDATE_DIR && PATH=" FK_BINARY_DIR ":$PATH && " +
                     one["repro"].get<std::string>() + " --output-json " + again + " >/dev/null 2>&1";
  EXPECT_EQ(WEXITSTATUS(system(line.c_str())), 1) << line;
  ASSERT_TRUE(fs::exists(again)) << line;
  Json repeated = parse_json_file(again);
  ASSERT_EQ(repeated["results"].size(), 1u) << line;
  EXPECT_EQ(repeated["results"][0]["sentence"], one["sentence"]) << line;
}

// With an example that is usually much faster. On a busy machine the second measurement may not confirm the first.
TEST_F(KernelsVerb, SlowANewBestIsMeasuredTwiceAndKnownAsOne) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  setenv("FASTKERNELS_CANDIDATE_DIR", FK_SOURCE_DIR "/tasks/candidate/examples", 1);
  auto run = [&](const Arguments& more) {
    Arguments arguments = {"kernels",    "--target", "softmax",    "--filter", "contract/vocabulary", "--threads",  "1",
                           "--num-runs", "40",       "--launches", "4",        "--output-json",       result_path()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(run_program(arguments).exit_code, 0);
    return result()["results"][0];
  };
  auto beats = [](const Json& row, double best) {
    const Json& t = row["timing"];
    return t["invalid"] == "" && t["speed_verdict"] == "FASTER" && t["speedup_low"] > best;
  };
  Json first = run({});
  ASSERT_EQ(first.contains("confirmation"), beats(first, 1)) << first["timing"]["invalid"];
  if (!first.contains("confirmation")) GTEST_SKIP() << "the machine is too busy to tell";
  EXPECT_NE(first["confirmation"]["seed"], first["judgement"]["seed"]);
  EXPECT_EQ(first["confirmation"]["best_before"], 1.0);
  bool held = first["confirmation"]["confirmed"];
  Json best = parse_json(run_program({"history", "--best", "--json"}).out, "best");
  ASSERT_EQ(best.size(), held ? 1u : 0u) << best << first["confirmation"]["sentence"];
  EXPECT_TRUE(!held || best.at(0)["confirmed"] == "yes") << best;

  Json second = run({});
  double to_beat = held ? first["timing"]["speedup"].get<double>() : 1.0;
  EXPECT_EQ(second.contains("confirmation"), beats(second, to_beat));
  EXPECT_EQ(second.value(Json::json_pointer("/confirmation/best_before"), to_beat), to_beat);
  EXPECT_FALSE(run({"--no-history"}).contains("confirmation")) << "nobody keeps it";
}

TEST_F(KernelsVerb, AFilterTakesWholeWords) {
  auto listed = [](const std::string& filter) {
    return run_program(
        {"kernels", "--list", "--model", "tiny-llama", "--target", "rms_norm", "--filter", filter, "--csv"});
  };
  Outcome one = listed("decode-1");
  EXPECT_NE(one.out.find("/decode-1/"), std::string::npos) << one.out << one.err;
  EXPECT_EQ(one.out.find("/decode-128/"), std::string::npos) << one.out;
  EXPECT_NE(listed("decode").out.find("/decode-128/"), std::string::npos);
  EXPECT_EQ(listed("decod").exit_code, 1);
}

TEST_F(KernelsVerb, SlowARepetitionIsOfOneScenario) {
  write_silu(kRight);
  Outcome o = kernels({"--filter", "tiny-llama/tp1/decode-1", "--repro", "5:3"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_EQ(result()["results"].size(), 1u);
  EXPECT_NE(o.out.find("1/1 passed\n"), std::string::npos) << o.out;
  for (const char* bad : {"-1", "5x:3", "1:2:3", "5:", ":5", "5:-1", "99999999999999999999"})
    EXPECT_EQ(kernels({"--repro", bad}).exit_code, 2) << bad;
}

TEST_F(KernelsVerb, ARunIsGoneOnWithInTheSameWayOnly) {
  write_silu(kRight);
  Json params = {{"cold", "false"}, {"num_runs", "10"}};
  Json run = {{"event", "run"},
              {"run",
               {{"run_id", "r1"},
                {"name", "kernels"},
                {"experiment", "e"},
                {"status", "running"},
                {"tier", "kernel"},
                {"started_us", 1}}}};
  run["run"]["params"] = params;
  std::ofstream(result_path() + "l") << run.dump() << "\n";
  Outcome o = kernels({"--filter", "tiny-llama/tp1/decode-8", "--resume", "--cold"});
  EXPECT_EQ(o.exit_code, 2) << o.err;
  EXPECT_NE(o.err.find("cold was false"), std::string::npos) << o.err;
  std::ofstream(result_path() + "l") << R"({"event": "run", "run": {"name": 5}})"
                                     << "\n";
  o = kernels({"--filter", "tiny-llama/tp1/decode-8", "--resume"});
  EXPECT_EQ(o.exit_code, 1) << o.err;
  EXPECT_NE(o.err.find("leave --resume out"), std::string::npos) << o.err;
}

TEST_F(KernelsVerb, TimesThatAreNoneAreRefused) {
  for (const char* bad : {"nan", "inf", "-1", "0", "1e400", "soon"}) {
    Outcome o = kernels({"--self-test", "--target", "silu_and_mul", "--timeout", bad});
    EXPECT_EQ(o.exit_code, 2) << bad;
    EXPECT_NE(o.err.find("seconds above 0"), std::string::npos) << o.err;
    EXPECT_LT(o.err.size(), 200u) << o.err;
  }
}

TEST_F(KernelsVerb, SlowTheSameWordsAreSaidOnce) {
  write_silu("out.row<T>(t)[i] = T(gate)");  // no semicolon
  Outcome o = kernels({"--filter", "tiny-llama/tp1/decode"});
  EXPECT_EQ(o.exit_code, 1);
  size_t first = o.out.find(": BUILD_ERROR: ");
  ASSERT_NE(first, std::string::npos) << o.out;
  EXPECT_EQ(o.out.find(": BUILD_ERROR: ", first + 1), std::string::npos) << o.out;
  EXPECT_NE(o.out.find(" and 5 more: BUILD_ERROR"), std::string::npos) << o.out;
}

TEST_F(KernelsVerb, SlowWhatCouldRunIsListedBeforeThereIsACandidate) {
  Outcome o = run_program({"kernels", "--list", "--filter", "decode-8", "--csv"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_NE(o.out.find(",rms_norm,"), std::string::npos) << o.out;
  EXPECT_EQ(run_program({"kernels", "--list", "--target", "linear"}).exit_code, 0);
}

// A killed program cannot clean up; the next one does.
TEST_F(KernelsVerb, FoldersOfTheKilledAreRemoved) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  pid_t dead = fork();
  if (dead == 0) _exit(0);
  waitpid(dead, nullptr, 0);
  fs::path tmp = folder_ / "tmp", stale = tmp / ("fastkernels-runner-" + std::to_string(dead) + "-abcdef"),
           ours = tmp / ("fastkernels-runner-" + std::to_string(getpid()) + "-abcdef"),
           fresh = tmp / ("fastkernels-runner-" + std::to_string(dead) + "-fresh1");
  for (const fs::path& folder : {stale, ours, fresh}) fs::create_directories(folder);
  for (const fs::path& folder : {stale, ours})
    fs::last_write_time(folder, fs::file_time_type::clock::now() - std::chrono::hours(1));
  setenv("TMPDIR", tmp.c_str(), 1);
  Outcome o =
      kernels({"--self-test", "--target", "silu_and_mul", "--filter", "tiny-llama/tp1/decode-8", "--repro", "5:0"});
  unsetenv("TMPDIR");
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(ours)) << "its program lives";
  EXPECT_TRUE(fs::exists(fresh));
}

TEST_F(KernelsVerb, SlowAPoliteKillKeepsWhatWasMeasured) {
  write_silu(kRight);
  auto measured = [&] {
    std::ifstream journal(result_path() + "l");
    std::string text{std::istreambuf_iterator<char>(journal), {}};
    return text.find("{\"operator\"") != std::string::npos;
  };
  Outcome o = run_and_interrupt(
      {"kernels", "--model", "tiny-llama", "--threads", "1", "--num-runs", "10", "--output-json", result_path()},
      measured, SIGTERM);
  EXPECT_EQ(o.exit_code, 1) << o.err;
  EXPECT_NE(o.err.find("Interrupted after"), std::string::npos) << o.err;
  EXPECT_FALSE(result()["results"].empty());
}

// Nothing is measured if the result file cannot be written; if the disk is full at the end, the results are printed.
TEST_F(KernelsVerb, SlowAResultFileThatCannotBeWrittenLosesNothing) {
  write_silu(kRight);
  Outcome o = kernels({"--filter", "tiny-llama/tp1/decode-8", "--output-json", folder_.string()});
  EXPECT_EQ(o.exit_code, 2) << "given twice: " << o.err;
  o = run_program({"kernels", "--model", "tiny-llama", "--output-json", folder_.string()});
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_NE(o.err.find("is a folder"), std::string::npos) << o.err;
  EXPECT_EQ(o.out, "");
  fs::create_symlink("/dev/full", folder_ / "full.json");
  o = run_program({"kernels", "--model", "tiny-llama", "--filter", "tiny-llama/tp1/decode-8", "--num-runs", "5",
                   "--launches", "1", "--output-json", folder_ / "full.json"});
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_NE(o.out.find("PASSED"), std::string::npos) << o.out;
  EXPECT_EQ(o.out.find("Everything measured"), std::string::npos) << o.out;
  EXPECT_NE(o.err.find("full.json"), std::string::npos) << o.err;
  EXPECT_TRUE(fs::is_symlink(folder_ / "full.json")) << "a link stays a link";
}

}  // namespace
}  // namespace fk
