// ttft with --path, --trace and --debug-sequential: what is printed and stored, and bad input.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "candidate/compile_cache.h"
#include "core/json.h"
#include "tests/cli/csv.h"
#include "tests/cli/program.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

Arguments ttft(const Arguments& more, const char* model = "tiny-llama") {
  Arguments arguments = {"ttft", "--model",         model,        "--load-format",   "dummy", "--threads",
                         "1",    "--prompt-tokens", "10",         "--decode-tokens", "4",     "--iters",
                         "2",    "--no-sequential", "--no-floors"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

Json json_of(const Arguments& arguments) {
  Outcome outcome = run_program(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.exit_code == 0 ? parse_json(outcome.out, "output") : Json();
}

TEST(TtftPaths, OnePathRunsAlone) {
  Json compiled = json_of(ttft({"--path", "compiled", "--no-generated-kernels", "--json"}));
  Json eager = json_of(ttft({"--path", "eager", "--json"}));
  EXPECT_EQ(compiled["results"][0]["path"], "compiled");
  EXPECT_EQ(eager["results"][0]["path"], "eager");
  EXPECT_FALSE(eager.contains("plan"));
  EXPECT_EQ(compiled["outputs"], eager["outputs"]);
  EXPECT_EQ(compiled["outputs"]["tokens"][0].size(), 4u);
  const Json& plan = compiled["plan"];
  EXPECT_EQ(plan["calls_by_tree"], 0);
  for (const char* phase : {"prefill", "decode"}) {
    EXPECT_EQ(plan[phase]["steps"], 25);
    EXPECT_EQ(plan[phase]["copies"], 0);
    EXPECT_LE(plan[phase]["arena_bytes"].get<double>(), 1.1 * plan[phase]["lower_bound_bytes"].get<double>());
  }
  // The same kernels ran as often; a plan makes no calls of compositions.
  auto kernels = [](const Json& json) {
    std::map<std::string, int64_t> calls;
    for (const Json& d : json["dispatches"])
      if (d["implementation"] != "composed")
        calls[d["operator"].get<std::string>() + " " + d["implementation"].get<std::string>()] +=
            d["calls"].get<int64_t>();
    return calls;
  };
  EXPECT_EQ(kernels(compiled), kernels(eager));
  for (const Json& d : compiled["dispatches"]) EXPECT_NE(d["implementation"], "composed") << d;
}

TEST(TtftPaths, SlowSeveralAreComparedWithTheFirst) {
  // A history of its own: other tests store runs at the same time.
  const std::string db = (fs::path(testing::TempDir()) / "fk_ttft_paths.db").string();
  fs::remove(db);
  Arguments arguments =
      ttft({"--path", "eager", "--path", "compiled", "--no-generated-kernels", "--rounds", "3", "--db", db});
  arguments.push_back("--json");
  Json json = json_of(arguments);
  ASSERT_EQ(json["results"].size(), 2u);
  for (const Json& row : json["results"]) {
    EXPECT_EQ(row["base"], "eager");
    EXPECT_EQ(row["path"], "compiled");
    EXPECT_EQ(row["outputs_equal"], true);
    EXPECT_GT(row["base_ms"], 0);
    EXPECT_LE(row["speedup_low"].get<double>(), row["speedup"].get<double>());
    EXPECT_GE(row["speedup_high"].get<double>(), row["speedup"].get<double>());
  }
  const Json& comparison = json["comparisons"][0];
  EXPECT_EQ(comparison["outputs"]["same_bits"], true);
  EXPECT_EQ(comparison["samples"]["ttft"]["eager_ms"].size(), 4u);
  EXPECT_EQ(comparison["samples"]["ttft"]["compiled_ms"].size(), 3u);
  EXPECT_EQ(comparison["plan"]["decode"]["steps"], 25);
  Json shown = json_of({"history", "--db", db, "show", "last", "--json"});
  const std::string text = shown.dump();
  EXPECT_NE(text.find("\"compiled_tpot_speedup_low\""), std::string::npos) << text.substr(0, 2000);
  EXPECT_NE(text.find("\"path\":\"compiled\""), std::string::npos);
  EXPECT_NE(text.find("\"path\":\"eager\""), std::string::npos);
  arguments.back() = "--csv";
  auto records = parse_csv(run_program(arguments).out);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].size(), records[1].size());
}

TEST(TtftPaths, SlowEncodersHaveOneRow) {
  Json json = json_of(ttft(
      {"--path", "eager", "--path", "compiled", "--no-generated-kernels", "--rounds", "3", "--json"}, "tiny-siglip"));
  ASSERT_EQ(json["results"].size(), 1u);
  EXPECT_EQ(json["results"][0]["outputs_equal"], true);
  EXPECT_EQ(json["comparisons"][0]["outputs"]["text"], "vectors equal bit for bit");
}

TEST(TtftPaths, TracesAreWrittenForBothPaths) {
  for (const char* path : {"eager", "compiled"}) {
    fs::path file = fs::path(testing::TempDir()) / (std::string("fk_trace_") + path + ".json");
    fs::remove(file);
    Arguments arguments = ttft({"--path", path, "--trace", file.string(), "--no-history"});
    if (std::string(path) == "compiled") arguments.push_back("--no-generated-kernels");
    ASSERT_EQ(run_program(arguments).exit_code, 0);
    Json trace = parse_json_file(file.string());
    int64_t passes = 0, products = 0, layers = 0;
    for (const Json& e : trace["traceEvents"]) {
      if (e["ph"] != "X") continue;
      passes += e["cat"] == "pass" ? 1 : 0;
      products += e["name"] == "linear" ? 1 : 0;
      layers += e["name"] == "llama_decoder_layer" ? 1 : 0;
    }
    EXPECT_EQ(passes, 5) << path;
    EXPECT_EQ(products, 5 * 9) << path;
    EXPECT_EQ(layers, std::string(path) == "eager" ? 5 * 2 : 0) << path;
  }
}

TEST(TtftPaths, CheckingEveryStepPassesAHealthyModel) {
  Outcome outcome =
      run_program(ttft({"--path", "compiled", "--debug-sequential", "--no-generated-kernels", "--no-history"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("lower bound"), std::string::npos) << outcome.out;
}

// In f32 the tokens are those of the tree, although kernels of a plan round less often.
TEST(TtftPaths, SlowGeneratedKernelsGiveTheSameTokens) {
  for (const char* model : {"tiny-llama", "tiny-qwen3-moe"}) {
    Json eager = json_of(ttft({"--path", "eager", "--dtype", "f32", "--no-history", "--json"}, model));
    Json compiled =
        json_of(ttft({"--path", "compiled", "--dtype", "f32", "--debug-sequential", "--no-history", "--json"}, model));
    EXPECT_EQ(compiled["outputs"]["tokens"], eager["outputs"]["tokens"]) << model;
    EXPECT_EQ(compiled["plan"]["calls_by_tree"], 0);
    for (const char* phase : {"prefill", "decode"}) {
      const Json& plan = compiled["plan"][phase];
      EXPECT_LE(plan["arena_bytes"].get<double>(), 1.1 * plan["lower_bound_bytes"].get<double>()) << model;
      EXPECT_EQ(plan["steps"].get<int64_t>(),
                plan["calls"].get<int64_t>() + plan["regions"].get<int64_t>() + plan["copies"].get<int64_t>());
    }
  }
}

TEST(TtftPaths, WithoutAPlaceForKernelsItRunsAndNamesTheFlag) {
  Json said = json_of(ttft({"--path", "compiled", "--search-cache", "/proc/nowhere", "--no-history", "--json"}));
  const std::string text = said["plan"]["text"].get<std::string>();
  EXPECT_NE(text.find("cannot be written; name a writable folder with --search-cache or"), std::string::npos) << text;
}

// Whole steps are timed once and kept; what is kept decides the next time. Here the test says that decoding is slower.
TEST(TtftPaths, SlowAPlanThatIsSlowerIsLeftToTheTree) {
  const fs::path cache = fs::path(testing::TempDir()) / "fk_slower_plan";
  fs::remove_all(cache);
  const Arguments arguments = ttft({"--path", "compiled", "--search-cache", cache.string(), "--no-history", "--json"});
  Json first = json_of(arguments);
  for (const char* phase : {"prefill", "decode"}) {
    const Json& steps = first["plan"]["whole_steps"][phase];
    ASSERT_EQ(steps["timings"].size(), 1u) << phase;
    EXPECT_EQ(steps["timings"][0]["rows"], std::string(phase) == "decode" ? 1 : 10);
    EXPECT_GT(steps["timings"][0]["calls_ns"], 0);
  }
  int changed = 0;
  const Json decoding = first["plan"]["whole_steps"]["decode"]["timings"];
  for (const fs::directory_entry& file : fs::directory_iterator(cache / "profiles")) {
    std::string text = file_text(file.path().string()).value();
    Json entry = parse_json(text.substr(text.find('\n') + 1), "entry");
    if (entry["timings"] != decoding) continue;
    entry["timings"][0].update({{"verdict", "SLOWER"}, {"speedup", 0.5}, {"low", 0.49}, {"high", 0.51}});
    text = dump_json(entry) + "\n";
    ASSERT_TRUE(write_whole(file.path().string(), Fingerprint().add(text).hex() + "\n" + text));
    ++changed;
  }
  ASSERT_EQ(changed, 1);
  Json second = json_of(arguments);
  EXPECT_EQ(second["plan"]["whole_steps"]["decode"]["left_to_tree"], true);
  EXPECT_GT(second["plan"]["calls_by_tree"], 0);
  const std::string says = second["plan"]["text"].get<std::string>();
  EXPECT_NE(says.find("decode is left to the tree: a step of 1 token takes"), std::string::npos) << says;
  EXPECT_NE(says.find("0.500x (0.490 to 0.510, SLOWER)"), std::string::npos) << says;
  fs::remove_all(cache);
}

TEST(TtftPaths, BadInputIsOneSentence) {
  struct {
    Arguments more;
    int exit_code;
    std::string says;
  } const cases[] = {
      {{"--path", "fast"}, 2, "eager"},
      {{"--path", "eager", "--path", "eager"}, 2, "twice"},
      {{"--path", "eager", "--compare"}, 2, "--compare"},
      {{"--path", "candidate", "--no-candidate-kernels"}, 2, "--no-candidate-kernels"},
      {{"--no-generated-kernels"}, 2, "--path compiled"},
      {{"--no-generated-kernels", "--path", "eager"}, 2, "--path compiled"},
      {{"--debug-sequential"}, 2, "--path compiled"},
      {{"--debug-sequential", "--path", "eager"}, 2, "--path compiled"},
      {{"--debug-sequential", "--path", "eager", "--path", "compiled"}, 2, "no other path"},
      {{"--path", "eager", "--path", "compiled", "--trace", "/tmp/never.json"}, 2, "one --path"},
      {{"--trace", "/nowhere/at/all.json"}, 1, "/nowhere"},
  };
  for (const auto& c : cases) {
    Outcome outcome = run_program(ttft(c.more));
    EXPECT_EQ(outcome.exit_code, c.exit_code) << outcome.err;
    EXPECT_NE(outcome.err.find(c.says), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace fk
