// generate-inputs, capture and capture-golden as a user types them.
#include <gtest/gtest.h>

#include <filesystem>

#include "bench/scenarios/scenario_file.h"
#include "core/json.h"
#include "tests/cli/program.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

TEST(GenerateInputsVerb, WritesOneFilePerOperator) {
  TempDirectory folder;
  Json json = run_json({"generate-inputs", "--model", "qwen3-0.6b", "--tp", "1", "2", "--out", folder.path()});
  size_t files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path())) files += entry.is_regular_file();
  EXPECT_EQ(files, json["files"].size());
  std::vector<Scenario> read = read_scenarios(folder.path());
  EXPECT_EQ(read.size(), json["scenarios"].get<size_t>());
  EXPECT_GT(read.size(), 200u);
}

TEST(GenerateInputsVerb, FlagsSelect) {
  TempDirectory folder;
  Outcome outcome = run_program({"generate-inputs", "--target", "rms_norm", "--model", "llama-3.2", "--tp", "1",
                                 "--filter", "decode-32", "--out", folder.path() + "/new"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("rms_norm"), std::string::npos);
  std::vector<Scenario> read = read_scenarios(folder.path() + "/new");
  ASSERT_FALSE(read.empty());
  for (const Scenario& s : read) {
    EXPECT_EQ(s.op, "rms_norm");
    EXPECT_TRUE(s.name.starts_with("llama-3.2-")) << s.name;
    EXPECT_NE(s.name.find("/tp1/decode-32"), std::string::npos) << s.name;
  }
}

TEST(CaptureVerb, RecordsARun) {
  TempDirectory folder;
  std::string out = folder.path() + "/run.yaml";
  Json json = run_json({"capture-golden", "--model", "tiny-llama", "--load-format", "dummy", "--prompt-tokens", "20",
                        "7", "--decode-tokens", "3", "--out", out});
  EXPECT_EQ(json["unmatched"], Json::array());
  EXPECT_GT(json["golden_tensors"], 5);
  EXPECT_TRUE(fs::exists(folder.path() + "/run.safetensors"));
  EXPECT_GT(read_scenarios(out).size(), 20u);
  Outcome text = run_program(
      {"capture", "--model", "tiny-llama", "--load-format", "dummy", "--prompt", "Hello there", "--out", out});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("flash_attn_decode"), std::string::npos);
}

TEST(ScenarioVerbs, BadInputIsOneSentence) {
  TempDirectory folder;
  struct {
    Arguments arguments;
    int exit_code;
    const char* words;
  } const kBad[] = {
      {{"generate-inputs", "--model", "lama"}, 1, "llama"},
      {{"generate-inputs", "--target", "rmsnorm"}, 1, "rms_norm"},
      {{"generate-inputs", "--tp", "0"}, 2, "--tp"},
      {{"generate-inputs", "--level", "7"}, 2, "--level"},
      {{"generate-inputs", "--model", "gemma3-1b", "--tp", "8"}, 1, "cannot be divided"},
      {{"generate-inputs", "--model", "qwen3-0.6b", "--filter", "nothing-like-it"}, 1, "No scenario"},
      {{"capture", "--model", "tiny-llama", "--load-format", "dummy", "--prompt", "a"}, 2, "--out"},
      {{"capture", "--model", "tiny-llama", "--load-format", "dummy", "--out", "x.yaml"}, 2, "--prompt"},
      {{"capture", "--model", "tiny-llama", "--prompt", "a", "--out", "x.yaml"}, 1, "--load-format dummy"},
      {{"capture", "--model", "tiny-llama", "--load-format", "dummy", "--prompt-tokens", "600", "--out", "x.yaml"},
       1,
       "context of 512"},
      {{"capture", "--model", "tiny-llama", "--load-format", "dummy", "--prompt", "a", "--out", "/nowhere/x.yaml"},
       1,
       "no folder '/nowhere'"},
  };
  for (const auto& bad : kBad) {
    Arguments arguments = bad.arguments;
    if (arguments[0] == "generate-inputs") arguments.insert(arguments.end(), {"--out", folder.path()});
    Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, bad.exit_code) << outcome.err;
    EXPECT_NE(outcome.err.find(bad.words), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_FALSE(fs::exists("x.yaml"));
}

}  // namespace
}  // namespace fk
