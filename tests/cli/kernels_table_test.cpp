// Rows of `kernels`: the SPEED column, and what changed since the previous run.
#include "cli/kernels_table.h"

#include <gtest/gtest.h>

#include "cli/kernels_baseline.h"
#include "cli/kernels_changes.h"
#include "tests/cli/csv.h"

namespace fk {
namespace {

KernelRow row(const std::string& scenario, const std::string& verdict, double speedup = 0) {
  Json json = {
      {"operator", "softmax"}, {"scenario", scenario}, {"verdict", verdict}, {"judgement", {{"worst_ratio", 0.25}}}};
  if (speedup > 0) {
    json["of_floor"] = 0.5;
    json["timing"] = {{"speedup", speedup},
                      {"speedup_low", speedup * 0.99},
                      {"speedup_high", speedup * 1.01},
                      {"speed_verdict", "FASTER"},
                      {"invalid", ""},
                      {"baseline", {{"median_ns", 2190.0}}},
                      {"candidate", {{"median_ns", 1500.0}}}};
  }
  return {json};
}

KernelsTable table(size_t columns) {
  Scenario scenario;
  scenario.name = "contract/odd-tail";
  return KernelsTable({{nullptr, "", {scenario}}}, true, TextStyle{.columns = columns});
}

TEST(KernelsTable, KeepsEverythingIn80Columns) {
  std::string wide = table(0).head() + table(0).row(row("contract/odd-tail", "PASSED", 1.457));
  EXPECT_EQ(
      wide,
      "SCENARIO           VERDICT  ERR_RATIO   BASELINE  CANDIDATE  SPEEDUP  99 % INTERVAL   SPEED       % OF FLOOR\n"
      "-----------------  -------  ---------  ---------  ---------  -------  --------------  ----------  ----------\n"
      "contract/odd-tail  PASSED        0.25    2.19 us    1.50 us   1.457x  1.442 .. 1.472  FASTER            50 %\n");
  std::string narrow = table(80).head() + table(80).row(row("contract/odd-tail", "PASSED", 1.457)) +
                       table(80).row(row("contract/odd-tail", "INCORRECT_NUMERICAL"));
  EXPECT_EQ(narrow,
            "SCENARIO\n"
            "  VERDICT   ERR   BASELINE  CANDIDATE  SPEEDUP  99 %          SPEED       FLOOR\n"
            "  -------  ----  ---------  ---------  -------  ------------  ----------  -----\n"
            "contract/odd-tail\n"
            "  PASSED   0.25    2.19 us    1.50 us   1.457x  1.442..1.472  FASTER       50 %\n"
            "contract/odd-tail\n"
            "  INCORRECT_NUMERICAL\n");
}

TEST(KernelsTable, NobodyIsFasterThanAnOracle) {
  KernelRow r = row("contract/odd-tail", "PASSED", 40);
  r.json["baseline_is_oracle"] = true;
  for (const std::string& text : {table(0).row(r), table(80).row(r), KernelsTable::csv_row(r)}) {
    EXPECT_NE(text.find("vs ORACLE"), std::string::npos) << text;
    EXPECT_EQ(text.find("FASTER"), std::string::npos) << text;
  }
}

TEST(KernelsTable, AnOracleIsOneByWhatTookTheCalls) {
  auto took = [](const char* op, const char* implementation) { return RunnerDispatch{op, implementation, 8, 100}; };
  std::vector<RunnerDispatch> oracle = {took("softmax", "oracle")}, kernel = {took("softmax", "cpu.three_pass")};
  std::vector<RunnerDispatch> block = {took("llama_mlp", "composed"), took("linear", "oracle")};
  std::vector<RunnerDispatch> mixed = {took("llama_mlp", "composed"), took("linear", "oracle"),
                                       took("silu_and_mul", "cpu.fused")};
  EXPECT_TRUE(only_oracles(oracle));
  EXPECT_FALSE(only_oracles(kernel));
  EXPECT_TRUE(only_oracles(block));
  EXPECT_FALSE(only_oracles(mixed));
  EXPECT_FALSE(only_oracles({}));
}

TEST(KernelsTable, AScenarioNameIsOneFieldOfCsv) {
  auto records = parse_csv(KernelsTable::csv_head() + KernelsTable::csv_row(row("a,\"b\"", "CRASHED")));
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].size(), records[1].size());
  EXPECT_EQ(records[1][1], "a,\"b\"");
}

TEST(KernelsChanges, NamesVerdictsAndSpeedsThatChanged) {
  std::vector<KernelRow> before = {row("a", "PASSED", 1.2), row("b", "PASSED", 1.0), row("c", "CRASHED")};
  EXPECT_EQ(changes_since(before, before), "since the last run: nothing changed beyond noise\n");
  EXPECT_EQ(changes_since({}, before), "");
  EXPECT_EQ(changes_since(before, {row("a", "PASSED", 1.5), row("b", "PASSED", 1.005), row("c", "PASSED", 2),
                                   row("d", "PASSED", 9)}),
            "since the last run:\n"
            "  softmax a: 1.200x -> 1.500x, 1.25 times as fast\n"
            "  softmax c: CRASHED -> PASSED\n"
            "  1 other: no change beyond noise\n");
}

}  // namespace
}  // namespace fk
