// ttft --suite: rows are read back by Python's sqlite3; paths that are killed, run out of memory or are not there are
// rows too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "cli/suite_row.h"
#include "core/json.h"
#include "tests/cli/csv.h"
#include "tests/cli/program.h"

namespace fk {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Of a process; nothing where it has ended, which may happen while it is read.
std::string proc_text(const fs::path& path) {
  std::string text;
  if (FILE* file = std::fopen(path.c_str(), "r")) {
    for (int c = 0; (c = fgetc(file)) != EOF;) text += static_cast<char>(c);
    std::fclose(file);
  }
  return text;
}

// Whether a process of the group runs; those that ended and were not waited for do not count.
bool group_lives(pid_t group) {
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    if (!std::isdigit(static_cast<unsigned char>(entry.path().filename().string()[0]))) continue;
    const std::string text = proc_text(entry.path() / "stat");
    char state = 0;
    int parent = 0, its_group = 0;
    const size_t name_end = text.rfind(')');
    if (name_end != text.npos &&
        std::sscanf(text.c_str() + name_end + 1, " %c %d %d", &state, &parent, &its_group) == 3 && its_group == group &&
        state != 'Z' && state != 'X')
      return true;
  }
  return false;
}

class TtftSuite : public testing::Test {
 protected:
  TtftSuite()
      : folder_(fs::path(testing::TempDir()) /
                (std::string("fk_suite_") + testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    db_ = (folder_ / "history.db").string();
  }

  static constexpr const char* kQuick =
      "defaults: {load_format: dummy, prompt_tokens: 6, decode_tokens: 3, iterations: 2, threads: 1,\n"
      "           settle_seconds: 0, generated_kernels: false}\n"
      "configs:\n";

  std::string file(const std::string& configs) const {
    const std::string path = (folder_ / "suite.yaml").string();
    std::ofstream(path) << kQuick << configs;
    return path;
  }

  // A program in the place of Python.
  std::string script(const std::string& text) const {
    const fs::path path = folder_ / "python";
    std::ofstream(path) << "#!/bin/sh\n" << text;
    fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }

  std::vector<std::string> suite(const std::string& configs, std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"ttft", "--suite", file(configs), "--db", db_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  // By another reader of SQLite: runs joined with their rows.
  Json rows() const {
    const std::string command =
        FK_PYTHON
        " -I -S -c 'import json,sqlite3,sys\n"
        "c=sqlite3.connect(sys.argv[1]); c.row_factory=sqlite3.Row\n"
        "rows=[dict(r) for r in c.execute(\"SELECT r.run_id, r.status, r.mode, x.* FROM ttft_results x JOIN runs r "
        "USING "
        "(run) ORDER BY x.result\")]\n"
        "for r in rows: r[\"samples\"]=json.loads(r[\"samples\"]); r[\"details\"]=json.loads(r[\"details\"])\n"
        "print(json.dumps(rows,allow_nan=False))' " +
        db_;
    FILE* pipe = popen(command.c_str(), "r");
    std::string text;
    for (int c = 0; (c = fgetc(pipe)) != EOF;) text += static_cast<char>(c);
    EXPECT_EQ(pclose(pipe), 0);
    return parse_json(text, "rows");
  }

  fs::path folder_;
  std::string db_;
};

TEST_F(TtftSuite, EveryPathIsARowWithTimesAndComparedOutputs) {
  Outcome outcome = run_program(
      suite("  - {model: tiny-llama, paths: [compiled, eager]}\n"
            "  - {name: ids, model: tiny-llama, prompt_ids: [5, 3, 8, 1], paths: [eager], sequential: false}\n",
            {"--json"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  Json printed = parse_json(outcome.out, "output"), stored = rows();
  EXPECT_EQ(printed["mode"], "all-configs");
  ASSERT_EQ(stored.size(), 3u);
  ASSERT_EQ(printed["rows"].size(), 3u);
  EXPECT_EQ(stored[0]["path"], "eager");
  EXPECT_EQ(stored[1]["path"], "compiled");
  EXPECT_EQ(stored[1]["details"]["outputs"]["equal"], true);
  EXPECT_EQ(stored[1]["details"]["outputs"]["reference"], "eager");
  EXPECT_GT(stored[1]["compile_ms"], 0);
  EXPECT_TRUE(stored[1]["details"]["phases"].contains("trial_ms"));
  EXPECT_EQ(stored[2]["config"], "ids");
  EXPECT_EQ(stored[2]["prompt_tokens"], 4);
  EXPECT_TRUE(stored[2]["ttft_sequential_ms"].is_null());
  for (size_t i = 0; i < 3; ++i) {
    const Json& row = stored[i];
    EXPECT_EQ(row["status"], "finished");
    EXPECT_EQ(row["mode"], "all-configs");
    EXPECT_EQ(row["dtype"], "bf16");
    EXPECT_EQ(row["device"], "cpu");
    EXPECT_EQ(row["error"], "");
    EXPECT_EQ(row["samples"]["decode"].size(), 2u);
    EXPECT_GT(row["peak_memory_bytes"], 1 << 20);
    for (const char* key : {"ttft_ms", "ttft_ms_mean", "tpot_ms", "throughput_tps"}) EXPECT_GT(row[key], 0) << key;
    for (const char* key : {"ttft_ms", "tpot_ms", "path", "config", "details"})
      EXPECT_EQ(row[key], printed["rows"][i][key]);
    EXPECT_TRUE(row["details"]["settled"].contains("busy_cores"));
  }
  EXPECT_EQ(stored[0]["samples"]["sequential"].size(), 2u);
}

TEST_F(TtftSuite, APathThatIsKilledIsARowWithSignalStageAndLastWords) {
  const std::string python =
      script("echo 'fastkernels-stage: loading the model' >&2\necho 'and then it was dark' >&2\nkill -SEGV $$\n");
  Outcome outcome = run_program(suite("  - {model: tiny-llama, paths: [hf, eager]}\n", {"--python", python, "--csv"}));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("1 of 2 rows failed"));
  Json stored = rows();
  ASSERT_EQ(stored.size(), 2u);
  EXPECT_EQ(stored[0]["error"], "");
  EXPECT_GT(stored[0]["tpot_ms"], 0);
  const Json& failure = stored[1]["details"]["failure"];
  EXPECT_EQ(failure["signal"], "SIGSEGV");
  EXPECT_EQ(failure["stage"], "loading the model");
  EXPECT_EQ(failure["stderr_tail"], "and then it was dark\n");
  EXPECT_EQ(failure["out_of_memory"], false);
  EXPECT_GT(stored[1]["peak_memory_bytes"], 0);
  EXPECT_TRUE(stored[1]["tpot_ms"].is_null());
  EXPECT_THAT(stored[1]["error"].get<std::string>(),
              HasSubstr("SIGSEGV ended it while loading the model: and then it was dark"));
  std::vector<std::vector<std::string>> csv = parse_csv(outcome.out);
  ASSERT_EQ(csv.size(), 3u);
  EXPECT_EQ(csv[0][0], "config");
  EXPECT_THAT(csv[2].back(), HasSubstr("FAILED: SIGSEGV"));
}

TEST_F(TtftSuite, WithoutPyTorchTheRowSaysSkipped) {
  const std::string python = script("echo 'fastkernels-stage: importing' >&2\necho 'no torch here' >&2\nexit 3\n");
  Outcome outcome = run_program(
      suite("  - {model: tiny-llama, paths: [eager, hf, torch_compile, candidate], skip: {torch_compile: slow}}\n",
            {"--python", python, "--no-candidate-kernels"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  Json stored = rows();
  ASSERT_EQ(stored.size(), 4u);
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(stored[i]["error"], "");
    EXPECT_THAT(stored[i]["note"].get<std::string>(), testing::StartsWith("skipped: "));
    EXPECT_TRUE(stored[i]["ttft_ms"].is_null());
  }
  EXPECT_THAT(stored[2]["note"].get<std::string>(), HasSubstr("no torch here"));
  EXPECT_THAT(stored[2]["note"].get<std::string>(), HasSubstr("FASTKERNELS_PYTHON"));
  EXPECT_EQ(stored[3]["note"], "skipped: slow");
  // The same without words.
  fs::remove(db_);
  run_program(suite("  - {model: tiny-llama, paths: [hf]}\n", {"--python", script("exit 3\n")}));
  EXPECT_THAT(rows()[0]["note"].get<std::string>(), HasSubstr("/python has no PyTorch with transformers; install"));
  // A Python that is not there at all is no failure of the row either; a suite of nothing else is one.
  Outcome nothing = run_program(suite("  - {model: tiny-llama, paths: [hf]}\n", {"--python", "/no/python"}));
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_THAT(nothing.err, HasSubstr("All 1 rows were skipped"));
}

TEST_F(TtftSuite, ThePeerGetsTheSamePromptsAndWeights) {
  const std::string python =
      script("cp \"$2\" " + (folder_ / "request.json").string() + "\necho 'printed, and no result'\n");
  Outcome outcome = run_program(
      suite("  - {model: tiny-gemma3, prompt_ids: [5, 3, 8], weight_seed: 4, dtype: f32, paths: [torch_compile], "
            "compile_prefill: false}\n",
            {"--python", python, "--json"}));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(rows()[0]["error"].get<std::string>(), HasSubstr("it printed no result"));
  std::ifstream in(folder_ / "request.json");
  Json request = Json::parse(in);
  EXPECT_EQ(request["prompts"], Json::parse("[[[5,3,8]],[[5,3,8]]]"));
  EXPECT_EQ(request["dtype"], "f32");
  EXPECT_EQ(request["weight_seed"], 4);
  EXPECT_EQ(request["norm_offset"], 0);
  EXPECT_EQ(request["compile"], true);
  EXPECT_EQ(request["compile_prefill"], false);
  EXPECT_EQ(request["architecture"], "Gemma3ForCausalLM");
  EXPECT_GT(request["config"]["hidden_size"], 0);
  std::vector<std::string> names = request["tensors"];
  EXPECT_NE(std::find(names.begin(), names.end(), "model.layers.0.self_attn.q_proj.weight"), names.end());
}

TEST_F(TtftSuite, APathThatRunsOutOfMemoryIsSkippedAtHigherBudgets) {
  const std::string suite_file =
      file("  - {model: llama-3.2-1b, paths: [compiled], generated_kernels: true, sweep_budgets: [500, 10]}\n");
  // No address space for 2.3 GiB of weights.
  const std::string command = "ulimit -v 1800000; " FK_BINARY_DIR "/fastkernels ttft --mode search-sweep --suite " +
                              suite_file + " --db " + db_ + " >/dev/null 2>&1";
  EXPECT_NE(std::system(("bash -c '" + command + "'").c_str()), 0);
  Json stored = rows();
  ASSERT_EQ(stored.size(), 2u);
  EXPECT_EQ(stored[0]["search_iters"], 10);
  EXPECT_EQ(stored[0]["details"]["failure"]["out_of_memory"], true) << stored[0];
  EXPECT_EQ(stored[0]["details"]["failure"]["stage"], "loading the model");
  EXPECT_EQ(stored[1]["search_iters"], 500);
  EXPECT_THAT(stored[1]["note"].get<std::string>(), HasSubstr("skipped: it ran out of memory at budget 10"));
}

TEST_F(TtftSuite, ARowThatTakesTooLongIsStopped) {
  const std::string python = script("echo 'fastkernels-stage: compiling' >&2\nsleep 600\n");
  // On a busy machine the program has not said what it does when a short time is over.
  for (const std::string limit : {"0.2", "3", "30"}) {
    fs::remove(db_);
    Outcome outcome = run_program(
        suite("  - {model: tiny-llama, paths: [hf], limit_seconds: " + limit + "}\n", {"--python", python}));
    EXPECT_EQ(outcome.exit_code, 1);
    Json stored = rows();
    ASSERT_EQ(stored[0]["details"]["failure"]["timed_out"], true);
    if (stored[0]["error"].get<std::string>().find("while compiling") != std::string::npos) return;
  }
  FAIL() << "the stage is not named: " << rows()[0]["error"];
}

// --python names any program, and the rows before it are not to be lost by what it prints.
TEST_F(TtftSuite, WhateverAProgramPrintsTheOtherRowsAreKept) {
  const std::string times = R"("samples": {"prefill": {"samples_ms": [1, 2]}, "decode": {"samples_ms": [3]}})";
  std::string configs = "  - {model: tiny-llama, paths: [eager]}\n";
  int count = 0;
  for (const std::string& printed : {
           std::string(R"("samples": {"prefill": {"samples_ms": [0, 0]}})"),
           std::string(R"("samples": {"prefill": {"samples_ms": [1e308, 1e308]}})"),
           std::string(R"("samples": {"prefill": {"samples_ms": [1, null]}})"),
           std::string(R"("samples": {"prefill": {"samples_ms": [NaN]}})"),
           std::string(R"("samples": {"prefill": {"samples_ms": []}})"),
           std::string(R"("samples": [])"),
           R"("note": 5, )" + times,
           R"("outputs": {"tokens": 3}, )" + times,
           R"("outputs": {"prompts_hash": "", "tokens": [], "margins": [], "numbers": [], "bits": "z"}, )" + times,
           R"("same_weights": "no", )" + times,
           R"("plan": {}, )" + times,
           R"("plan": {"plan_ms": 1, "compile_ms": "x"}, )" + times,
           R"("results": [], )" + times,
       }) {
    // One after the other, in the order of the configurations.
    std::ofstream(folder_ / ("printed" + std::to_string(count))) << "{\n" << printed << "\n}\n";
    configs += "  - {name: " + std::to_string(count++) + ", model: tiny-llama, paths: [hf]}\n";
  }
  const std::string python =
      script("cd " + folder_.string() + "\nls printed* | sort -V | head -n 1 | { read f; cat $f; rm $f; }\n");
  Outcome outcome = run_program(suite(configs, {"--python", python, "--json"}));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("13 of 14 rows failed"));
  EXPECT_EQ(parse_json(outcome.out, "output")["rows"].size(), 14u);
  Json stored = rows();
  ASSERT_EQ(stored.size(), 14u);
  EXPECT_EQ(stored[0]["status"], "finished");
  EXPECT_GT(stored[0]["tpot_ms"], 0);
  for (size_t i = 1; i < stored.size(); ++i) {
    EXPECT_THAT(stored[i]["error"].get<std::string>(), HasSubstr("printed")) << i;
    for (const char* key : {"ttft_ms", "tpot_ms", "throughput_tps", "compile_ms"})
      EXPECT_TRUE(stored[i][key].is_null()) << i << " " << key;
  }
}

TEST_F(TtftSuite, NumbersOfBytesThatCannotBeAreLeftOut) {
  const std::string python = script(
      "cat <<'END'\n{\n\"peak_memory_bytes\": 1e300, \"weights_bytes\": -5, "
      "\"samples\": {\"prefill\": {\"samples_ms\": [1]}}\n}\nEND\n");
  EXPECT_EQ(run_program(suite("  - {model: tiny-llama, paths: [hf]}\n", {"--python", python})).exit_code, 0);
  EXPECT_TRUE(rows()[0]["peak_memory_bytes"].is_null());
  EXPECT_TRUE(rows()[0]["weights_bytes"].is_null());
}

TEST_F(TtftSuite, SlowAProgramThatPrintsWithoutEndIsStopped) {
  for (const char* where : {"", " >&2"}) {
    fs::remove(db_);
    const std::string python =
        script("echo 'fastkernels-stage: importing' >&2\nexec yes 'lots of memory'" + std::string(where) + "\n");
    Outcome outcome =
        run_program(suite("  - {model: tiny-llama, paths: [hf], limit_seconds: 20}\n", {"--python", python}));
    EXPECT_EQ(outcome.exit_code, 1);
    const Json row = rows()[0];
    EXPECT_EQ(row["error"], "stopped since it printed more than 32 MiB while importing");
    EXPECT_EQ(row["details"]["failure"]["timed_out"], false);
    EXPECT_EQ(row["details"]["failure"]["out_of_memory"], false);
  }
}

TEST_F(TtftSuite, LastWordsAreReadableWhateverTheyAre) {
  // rows() reads them by sqlite3, which refuses what is not UTF-8.
  const std::string python = script(
      R"(printf 'fastkernels-stage: \033[31mred\n10 %%\r20 %%\rcaf\351 \033[31m\007 \342\202\254\r\n' >&2; exit 7)");
  Outcome outcome = run_program(suite("  - {model: tiny-llama, paths: [hf]}\n", {"--python", python, "--csv"}));
  const Json row = rows()[0];
  EXPECT_EQ(row["error"], "exit code 7 while \\x1b[31mred: caf\uFFFD \\x1b[31m\\x07 €");
  EXPECT_EQ(parse_csv(outcome.out)[1].back(), "FAILED: " + row["error"].get<std::string>());
  // Cut between characters, not in them.
  fs::remove(db_);
  const std::string many = script("i=0\nwhile [ $i -lt 2000 ]; do printf '€' >&2; i=$((i + 1)); done\nexit 7\n");
  run_program(suite("  - {model: tiny-llama, paths: [hf]}\n", {"--python", many}));
  const std::string tail = rows()[0]["details"]["failure"]["stderr_tail"];
  EXPECT_EQ(tail.size(), 3999u);
  EXPECT_EQ(tail.substr(0, 3), "€");
  EXPECT_THAT(rows()[0]["error"].get<std::string>(), testing::EndsWith("€…"));
}

// A suite may take an hour, and its program may be built anew meanwhile.
TEST_F(TtftSuite, TheProgramMayBeReplacedWhileASuiteRuns) {
  const fs::path program = folder_ / "fastkernels";
  fs::copy_file(FK_BINARY_DIR "/fastkernels", program);
  const std::string python = script("rm " + program.string() + "\nexit 3\n");
  const std::string suite_file =
      file("  - {name: first, model: tiny-llama, paths: [hf]}\n  - {model: tiny-llama, paths: [eager]}\n");
  EXPECT_EQ(std::system((program.string() + " ttft --suite " + suite_file + " --db " + db_ + " --python " + python +
                         " > /dev/null")
                            .c_str()),
            0);
  EXPECT_FALSE(fs::exists(program));
  EXPECT_GT(rows()[1]["tpot_ms"], 0);
}

// Our own program in the place of Python: with the same weights, with others, and with other prompts.
TEST_F(TtftSuite, SlowOutputsThatDifferAreSaidToDiffer) {
  auto outputs = [&](const std::string& flags) {
    fs::remove(db_);
    const std::string python =
        script("exec " FK_BINARY_DIR
               "/fastkernels ttft --json --no-history --no-floors --model tiny-llama --dtype f32 "
               "--load-format dummy --prompt-tokens 6 --decode-tokens 3 --iters 2 --threads 1 "
               "--path eager " +
               flags + "\n");
    Outcome outcome =
        run_program(suite("  - {model: tiny-llama, paths: [eager, hf], dtype: f32}\n", {"--python", python, "--csv"}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    Json stored = rows()[1]["details"]["outputs"];
    EXPECT_EQ(parse_csv(outcome.out)[2][9], stored["equal"].get<bool>() ? "true" : "false");
    return stored;
  };
  const Json same = outputs("--weight-seed 0");
  EXPECT_EQ(same["equal"], true);
  EXPECT_EQ(same["same_bits"], true);
  const Json weights = outputs("--weight-seed 1");
  EXPECT_EQ(weights["equal"], false);
  EXPECT_EQ(weights["same_prompts"], true);
  EXPECT_THAT(weights["text"].get<std::string>(), HasSubstr("TOKENS DIFFER"));
  const Json prompts = outputs("--seed 5");
  EXPECT_EQ(prompts["equal"], false);
  EXPECT_THAT(prompts["text"].get<std::string>(), HasSubstr("the prompts differ"));
}

TEST_F(TtftSuite, SlowOnlyWordsOfExhaustedMemorySayThatItIs) {
  auto out_of_memory = [&](const std::string& words) {
    fs::remove(db_);
    const std::string python = script("echo '" + words + "' >&2\nexit 7\n");
    run_program(suite("  - {model: tiny-llama, paths: [hf]}\n", {"--python", python, "--quiet"}));
    return rows()[0]["details"]["failure"]["out_of_memory"].get<bool>();
  };
  EXPECT_TRUE(out_of_memory("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20 MiB"));
  EXPECT_TRUE(out_of_memory("DefaultCPUAllocator: can not allocate memory: you tried to allocate 9 bytes"));
  EXPECT_TRUE(out_of_memory("The weights take 9.0 GiB and this machine has 1.0 GiB of memory free; use another."));
  EXPECT_FALSE(out_of_memory("warning: pinning makes use of memory faster\nKeyError: rope_scaling"));
}

TEST_F(TtftSuite, AnInterruptedSuiteKeepsItsRowsAndLeavesNoProcess) {
  const fs::path pid_file = folder_ / "pid";
  const std::string python = script("echo $$ > " + pid_file.string() + ".new; mv " + pid_file.string() + ".new " +
                                    pid_file.string() + "\nsleep 60 &\nwait\n");
  Outcome outcome =
      run_and_interrupt(suite("  - {model: tiny-llama, paths: [eager, hf]}\n", {"--python", python, "--json"}),
                        [&] { return fs::exists(pid_file); });
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_LT(outcome.seconds_to_end, kAtOnceSeconds);
  EXPECT_THAT(outcome.err, HasSubstr("interrupted after 1 of 2 rows"));
  Json stored = rows();
  ASSERT_EQ(stored.size(), 1u);
  EXPECT_EQ(stored[0]["status"], "interrupted");
  EXPECT_GT(stored[0]["tpot_ms"], 0);
  EXPECT_EQ(parse_json(outcome.out, "output")["rows"].size(), 1u);
  pid_t pid = 0;
  std::ifstream(pid_file) >> pid;
  ASSERT_GT(pid, 0);
  EXPECT_TRUE(comes_true([&] { return !group_lives(pid); })) << "the process of the row, or what it started, is still there";
}

TEST_F(TtftSuite, AKilledSuiteKeepsItsRowsAndTakesTheRowThatRunsWithIt) {
  // Processes of this test's history whose command lines have these words, too.
  auto processes = [&](const char* words) {
    int count = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
      const std::string line = proc_text(entry.path() / "cmdline");
      count += line.find(db_) != line.npos && line.find(words) != line.npos ? 1 : 0;
    }
    return count;
  };
  // The first row is stored before the second begins.
  Outcome outcome = run_and_interrupt(
      suite("  - {model: tiny-llama, paths: [eager]}\n"
            "  - {model: tiny-qwen3, paths: [eager], iterations: 10000000}\n"),
      [&] { return processes("--model=tiny-qwen3") > 0; }, SIGKILL);
  EXPECT_EQ(outcome.exit_code, 128 + SIGKILL);
  EXPECT_TRUE(comes_true([&] { return processes("ttft") == 0; }));
  ASSERT_EQ(rows().size(), 1u);
  EXPECT_GT(rows()[0]["tpot_ms"], 0);
  // The next command that reads the history sees that nobody runs it any more.
  EXPECT_THAT(run_program({"history", "--db", db_}).out, HasSubstr("interrupted"));
}

TEST_F(TtftSuite, SlowTwoAtOnceKeepTheirRowsApart) {
  const std::vector<std::string> arguments =
      suite("  - {model: tiny-llama, paths: [eager]}\n  - {model: tiny-qwen3, paths: [eager]}\n", {"--quiet"});
  Outcome first, second;
  std::thread beside([&] { first = run_program(arguments); });
  second = run_program(arguments);
  beside.join();
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(second.exit_code, 0) << second.err;
  std::map<std::string, std::vector<std::string>> models;
  for (const Json& row : rows()) models[row["run_id"].get<std::string>()].push_back(row["model"].get<std::string>());
  ASSERT_EQ(models.size(), 2u);
  for (const auto& [run, list] : models) EXPECT_THAT(list, testing::ElementsAre("tiny-llama", "tiny-qwen3"));
}

TEST_F(TtftSuite, TheCommandLineComesBeforeTheFileAndTheFileBeforeTheConfigFile) {
  std::ofstream(folder_ / "config.yaml") << "threads: 3\nttft: {quantization: int8, no-sequential: true}\n";
  setenv("FASTKERNELS_CONFIG", (folder_ / "config.yaml").c_str(), 1);
  run_program(suite("  - {model: tiny-llama, paths: [eager]}\n"));
  run_program(suite("  - {model: tiny-llama, paths: [eager]}\n", {"--threads", "2"}));
  unsetenv("FASTKERNELS_CONFIG");
  Json stored = rows();
  ASSERT_EQ(stored.size(), 2u);
  EXPECT_EQ(stored[0]["threads"], 1);
  EXPECT_EQ(stored[1]["threads"], 2);
  EXPECT_FALSE(stored[0]["ttft_sequential_ms"].is_null());
}

TEST_F(TtftSuite, ASearchThatCannotCompileSaysSo) {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  Outcome outcome = run_program(suite("  - {model: tiny-llama, paths: [compiled], generated_kernels: true}\n"));
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(rows()[0]["note"].get<std::string>(), HasSubstr("no generated kernels: "));
  EXPECT_EQ(rows()[0]["details"]["plan"]["kernels_measured"], 0);
}

TEST_F(TtftSuite, ProgressIsShownOnATerminalOnly) {
  const std::string configs = "  - {model: tiny-llama, paths: [eager]}\n";
  Outcome terminal = run_program_on_terminal(suite(configs), 200);
  EXPECT_EQ(terminal.exit_code, 0) << terminal.err;
  EXPECT_THAT(terminal.err, HasSubstr("row 1 of 1: tiny-llama, eager: waiting for a quiet machine"));
  Outcome pipe = run_program(suite(configs));
  EXPECT_EQ(pipe.err, "");
  EXPECT_THAT(pipe.out, HasSubstr("TTFT seq. ms"));
}

TEST_F(TtftSuite, BadInputIsOneSentence) {
  auto refused = [](const std::vector<std::string>& arguments) {
    Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
    return outcome.err;
  };
  EXPECT_THAT(refused(suite("  - {model: tiny-llama, budget: 3}\n")),
              HasSubstr("suite.yaml:4: a configuration has no key 'budget'"));
  EXPECT_THAT(refused(suite("  - {model: tiny-llama}\n", {"--iters", "3"})), HasSubstr("leave --iters out"));
  EXPECT_THAT(refused(suite("  - {model: tiny-llama}\n", {"--config", "tiny"})), HasSubstr("no configuration 'tiny'"));
  EXPECT_THAT(refused(suite("  - {model: tiny-llama, device: tpu}\n")), HasSubstr("tpu"));
  EXPECT_THAT(refused({"ttft", "--mode", "single", "--model", "tiny-llama"}), HasSubstr("--mode belongs to --suite"));
  EXPECT_THAT(refused({"ttft"}), HasSubstr("--model is required"));
  EXPECT_THAT(run_program({"ttft", "--suite", ""}).err, HasSubstr("--suite names a YAML file"));
  Outcome missing = run_program({"ttft", "--suite", "/no/suite.yaml"});
  EXPECT_NE(missing.exit_code, 0);
  EXPECT_THAT(missing.err, HasSubstr("/no/suite.yaml"));
  // Nothing was begun, so nothing is stored.
  EXPECT_FALSE(fs::exists(db_));
}

TEST_F(TtftSuite, WhatCannotRunIsARowThatFailsOnEveryPath) {
  Outcome outcome =
      run_program(suite("  - {model: tiny-lama, paths: [eager, hf]}\n"
                        "  - {model: tiny-llama, prompt_ids: [5, 99999], paths: [eager, hf]}\n"
                        "  - {name: long, model: tiny-llama, iterations: 16777216, paths: [hf]}\n"
                        "  - {model: tiny-xlm-roberta, prompt_ids: [5, 3], paths: [eager]}\n",
                        {"--json", "--python", script("exit 0\n")}));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("6 of 6 rows failed"));
  Json stored = rows();
  ASSERT_EQ(stored.size(), 6u);
  EXPECT_THAT(stored[4]["error"].get<std::string>(), HasSubstr("lower iterations"));
  EXPECT_THAT(stored[5]["error"].get<std::string>(), HasSubstr("--prompt-ids is a prompt of a language model"));
  for (size_t i = 0; i < 4; ++i)
    EXPECT_THAT(stored[i]["error"].get<std::string>(), HasSubstr(i < 2 ? "tiny-lama" : "99999")) << i;
}

TEST_F(TtftSuite, SlowTheTinySuiteOfTheTree) {
  const std::string python = script("exit 3\n");
  Outcome outcome = run_program({"ttft", "--suite", FK_SOURCE_DIR "/bench/ttft-tiny.yaml", "--db", db_, "--python",
                                 python, "--json", "--threads", "1"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const Json& row : rows()) {
    const bool peer = row["path"] == "hf" || row["path"] == "torch_compile";
    EXPECT_EQ(row["tpot_ms"].is_null(), peer) << row;
    if (row["path"] == "compiled") {
      EXPECT_EQ(row["details"]["outputs"]["equal"], true) << row;
    }
  }
}

// Needs a Python with PyTorch and transformers, named by FASTKERNELS_PYTHON. Other code, the same weights: the same
// tokens.
TEST_F(TtftSuite, SlowTransformersGivesTheSameTokens) {
  if (std::getenv("FASTKERNELS_PYTHON") == nullptr) GTEST_SKIP() << "FASTKERNELS_PYTHON names no Python with PyTorch";
  std::string configs;
  for (const char* model : {"tiny-llama", "tiny-gemma3", "tiny-gemma4", "tiny-qwen3-moe"})
    configs += std::string("  - {model: ") + model + ", dtype: f32, paths: [eager, hf]}\n";
  Outcome outcome = run_program(suite(configs, {"--json"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const Json& row : rows()) {
    if (row["path"] != "hf") continue;
    ASSERT_TRUE(row["details"].contains("outputs")) << row;
    EXPECT_EQ(row["details"]["outputs"]["equal"], true) << row;
    EXPECT_LT(row["details"]["outputs"]["largest_difference"], 1e-5) << row;
    EXPECT_GT(row["tpot_ms"], 0);
  }
}

TEST(SuiteSeeds, OneWhoseOutputsDifferIsEnough) {
  SuiteResult reference{.row = {.path = kPathEager}}, row{.row = {.path = kPathCompiled}};
  reference.outputs = {.prompts_hash = 1, .tokens = {{4, 5, 6}}, .numbers = {1, 2}, .bits = 1};
  row.outputs = reference.outputs;
  row.of_other_seeds = {*reference.outputs, *reference.outputs};
  compare_with(row, reference);
  EXPECT_EQ(row.record.details["outputs"]["equal"], true);
  row.of_other_seeds[0].tokens[0][1] = 7;
  compare_with(row, reference);
  EXPECT_EQ(row.record.details["outputs"]["equal"], false);
  EXPECT_EQ(row.record.details["outputs"]["first_difference"]["step"], 1);
}

TEST_F(TtftSuite, SlowSeedsOfTheSearchAndTheirSpread) {
  Outcome outcome = run_program(
      suite("  - {model: tiny-llama, paths: [eager, compiled], generated_kernels: true, search_budget: 4}\n",
            {"--seeds", "2", "--json"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  Json row = rows()[1];
  EXPECT_EQ(row["search_iters"], 4);
  ASSERT_EQ(row["details"]["seeds"].size(), 2u);
  EXPECT_EQ(row["details"]["seeds"][1]["seed"], 1);
  EXPECT_GE(row["details"]["spread"]["tpot"], 0);
  EXPECT_EQ(row["details"]["plan"]["kernels_measured"], 4);
  EXPECT_GE(row["details"]["spread"]["plans"], 1);
  EXPECT_THAT(row["note"].get<std::string>(), HasSubstr("2 seeds found "));
  EXPECT_EQ(row["samples"]["prefill"].size(), 4u);
  EXPECT_EQ(row["details"]["outputs"]["same_prompts"], true);
  double phases = 0;
  for (const Json& time : row["details"]["phases"]) phases += time.get<double>();
  EXPECT_NEAR(phases, row["compile_ms"].get<double>(), 0.05 * phases);
}

}  // namespace
}  // namespace fk
