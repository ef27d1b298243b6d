// The verb search: what it writes, what it says, and bad input.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/json.h"
#include "tests/cli/program.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(SearchVerb, WritesKernelsOfAModel) {
  fs::path out = fs::path(testing::TempDir()) / "fk_search";
  fs::remove_all(out);
  Outcome outcome = run_program({"search", "--model", "tiny-llama", "--no-measure", "--json", "--out", out.string()});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  int64_t kernels = 0;
  for (const Json& row : parse_json(outcome.out, "search")) {
    bool written = fs::exists(out / "generated" / "L1" / (row.at("operator").get<std::string>() + ".cpp"));
    EXPECT_EQ(written, row.at("kernels").get<int64_t>() > 0) << row;
    kernels += row.at("kernels").get<int64_t>();
  }
  EXPECT_GE(kernels, 5);
  // The two norms of a layer are called with and without a residual.
  EXPECT_NE(text_of(out / "generated" / "L1" / "rms_norm.cpp").find("residual bf16 [T, 64]"), std::string::npos);
  EXPECT_FALSE(fs::exists(out / "plan"));
}

TEST(SearchVerb, RefusesWhatHasNoScenarios) {
  EXPECT_NE(run_program({"search", "--model", "no-such-model", "--no-measure"}).exit_code, 0);
  EXPECT_NE(run_program({"search"}).exit_code, 0);
}

}  // namespace
}  // namespace fk
