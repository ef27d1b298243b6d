// The verb search: what it finds, writes and says, and bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
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
    EXPECT_EQ(again["plans"][i]["fingerprint"], json["plans"][i]["fingerprint"]);
    for (const Json& kernel : again["plans"][i]["kernels"]) EXPECT_TRUE(kernel.at("known").get<bool>());
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

TEST(SearchVerb, RefusesBadInput) {
  EXPECT_EQ(run_program({"search"}).exit_code, 2);
  EXPECT_NE(run_program({"search", "--model", "no-such-model"}).exit_code, 0);
  EXPECT_EQ(run_program({"search", "--model", "tiny-llama", "--budget", "0"}).exit_code, 2);
  EXPECT_EQ(run_program({"search", "--model", "tiny-llama", "--device", "cuda"}).exit_code, 2);
  Outcome no_place = run_program({"search", "--model", "tiny-llama", "--no-measure", "--dump", "/proc/nowhere"});
  EXPECT_EQ(no_place.exit_code, 1);
  EXPECT_THAT(no_place.err, HasSubstr("cannot be written"));
}

}  // namespace
}  // namespace fk
