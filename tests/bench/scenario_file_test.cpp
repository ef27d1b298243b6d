// Scenario files: written files are read back unchanged, and errors are reported with their position.
#include "bench/scenarios/scenario_file.h"

#include <gtest/gtest.h>

#include "bench/scenarios/generate.h"
#include "bench/scenarios/scenario_data.h"
#include "tests/models/error_text.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

void expect_round_trip(const std::vector<std::string>& models, const std::vector<int64_t>& tp, size_t at_least) {
  std::vector<Scenario> scenarios = generate_scenarios({.models = models, .tp = tp}).scenarios;
  ASSERT_GT(scenarios.size(), at_least);
  std::vector<Scenario> again = parse_scenarios(scenarios_text(scenarios, "x.yaml"), "x.yaml");
  ASSERT_EQ(again.size(), scenarios.size());
  for (size_t i = 0; i < again.size(); ++i) EXPECT_TRUE(again[i] == scenarios[i]) << scenarios[i].name;
  EXPECT_EQ(scenarios_text(again, "x.yaml"), scenarios_text(scenarios, "x.yaml"));
}

TEST(ScenarioFile, EveryGeneratedScenarioSurvivesTheRoundTrip) { expect_round_trip({"tiny-gemma3"}, {1}, 50); }
TEST(ScenarioFile, SlowScenariosOfRanksAndLargeModelsSurviveTheRoundTrip) {
  expect_round_trip({"tiny-gemma3", "tiny-llama-bias", "gemma3-1b"}, {1, 2}, 200);
}

TEST(ScenarioFile, OverridesSurviveTheRoundTrip) {
  Scenario s{.op = "index_select", .name = "odd \"name\": with \\ and #"};
  s.init = s.info().default_init();
  s.workload = {.sequences = {{3, 0}, {3, 0}, {1, 7}},
                .dtype = DType::kF32,
                .width = 24,
                .picks = 5,
                .blocks = 90,
                .page_size = 32};
  s.overrides = {{.name = "x", .generator = Generator::uniform(-0.1, 1e-7), .strides = {40, 1}},
                 {.name = "index", .golden = "/data/golden.safetensors#some/tensor"}};
  s.block_table = "/data/golden.safetensors#table";
  for (const char* path : {"/data/run.yaml", "/elsewhere/run.yaml"}) {
    std::vector<Scenario> again = parse_scenarios(scenarios_text({s}, path), path);
    ASSERT_EQ(again.size(), 1u);
    EXPECT_TRUE(again[0] == s) << scenarios_text({s}, path);
  }
  EXPECT_NE(scenarios_text({s}, "/data/run.yaml").find("golden: \"golden.safetensors#"), std::string::npos);
}

TEST(ScenarioFile, AFileWrittenByHandMayBeShort) {
  std::vector<Scenario> read = parse_scenarios(R"yaml(
rms_norm:
  - name: mine
    init: {hidden_size: 64}
    workload: {sequences: [[4, 0]], dtype: f32}
    inputs:
      x: {generator: "uniform(-2, 2)", strides: [80, 1]}
)yaml",
                                               "mine.yaml");
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(fields_text(read[0].init), "hidden_size=64, eps=1e-06, dtype=bf16");
  std::unique_ptr<Node> root = read[0].info().build(read[0].init, {});
  CallData data = ScenarioInputs(read[0]).make(*root, read[0].workload, 1);
  EXPECT_EQ(data.row_gap(0), 16);
  EXPECT_EQ(data.given[0]->view().spec(), (TensorSpec{{4, 64}, DType::kF32}));
  for (int64_t i = 0; i < 64; ++i) EXPECT_LE(std::abs(get(data.given[0]->view(), 3, i)), 2);
}

TEST(ScenarioFile, WhatIsWrongIsNamedWithItsPlace) {
  auto error = [](const char* text) { return error_of([&] { parse_scenarios(text, "s.yaml"); }); };
  expect_sentence(error("rms_nrom:\n  - name: a\n"), {"s.yaml:1:1:", "no operator 'rms_nrom'", "rms_norm"});
  expect_sentence(error("rms_norm:\n  - name: a\n    init: {hiden_size: 3}\n"),
                  {"s.yaml:3:12:", "'hiden_size'", "hidden_size"});
  expect_sentence(error("attention:\n  - name: a\n    workload: {page_size: 24}\n"),
                  {"s.yaml:3:27:", "page_size must be a power of two"});
  expect_sentence(error("rms_norm:\n  - name: a\n    init: {hidden_size: big}\n"),
                  {"s.yaml:3:25:", "hidden_size must be a whole number"});
  expect_sentence(error("rms_norm:\n  - name: a\n    inputs:\n      resid: {dtype: bf16}\n"),
                  {"s.yaml:4:7:", "no 'resid'", "residual"});
  expect_sentence(error("rms_norm:\n  - name: a\n    inputs:\n      residual: {dtype: bf16}\n"),
                  {"s.yaml:4:17:", "optional_inputs: true"});
  expect_sentence(error("rms_norm:\n  - name: a\n    inputs:\n      x: {shape: [2, 3]}\n"),
                  {"s.yaml:4:18:", "[1, 0]", "correct one of them"});
  expect_sentence(error("rms_norm:\n  - name: a\n    inputs:\n      x: {dtype: b16}\n"), {"s.yaml:4:18:", "bf16"});
  expect_sentence(error("rms_norm:\n  - name: a\n    inputs:\n      x: {generator: \"normal(1)\"}\n"),
                  {"s.yaml:4:22:", "no generator"});
  auto align = [&](const char* generator) {
    return error(
        fmt::format("moe_align:\n  - name: a\n    init: {{num_experts: 8, top_k: 2}}\n    inputs:\n      topk_ids: "
                    "{{generator: \"{}\"}}\n",
                    generator)
            .c_str());
  };
  EXPECT_EQ(align("topk_ids(8, 2, 4)"), "(no error)");
  expect_sentence(align("topk_ids(9, 2, 1)"), {"s.yaml:5:29:", "only the last number", "topk_ids(8, 2, 1)"});
  expect_sentence(align("sorted_ids(8, 2, 1)"), {"only the last number"});
  for (const char* wrong : {"topk_ids(8, 2)", "topk_ids(8, 2, -1)", "topk_ids(8.5, 2, 1)", "topk_ids(1e30, 2, 1)"})
    expect_sentence(align(wrong), {"no generator"});
  expect_sentence(error("moe_align:\n  - name: a\n    init: {num_experts: 2, top_k: 3}\n"),
                  {"3 of 2 experts", "top_k"});
  expect_sentence(error("rms_norm:\n  - name: a\n    wokload: {}\n"), {"s.yaml:3:5:", "workload"});
  expect_sentence(error("rms_norm:\n  - name: a\n    workload: {sequences: [[1]]}\n"), {"s.yaml:3:28:", "new tokens"});
  expect_sentence(error("rms_norm:\n  - name: a\n    workload: {sequences: [[1, -4]]}\n"), {"s.yaml:3:28:"});
  expect_sentence(error("rms_norm:\n  - name: a\n    init: {hidden_size: -5}\n"),
                  {"s.yaml:2:5:", "[1, -5]", "negative"});
  expect_sentence(error("rms_norm:\n  - name: a\n    init: {hidden_size: 8, eps: .nan}\n"), {"s.yaml:3:33:", "eps"});
  expect_sentence(error(""), {"s.yaml:1:1:", "name of an operator"});
  expect_sentence(error("rms_norm:\n  - name: a\n  - name: a\n"), {"s.yaml:3:5:", "taken"});
  expect_sentence(error("rms_norm:\n  - tp: 1\n"), {"s.yaml:2:5:", "needs a name"});
  expect_sentence(error("rms_norm: 3\n"), {"s.yaml:1:11:", "list of scenarios"});
  expect_sentence(error("- a\n"), {"s.yaml:1:1:", "name of an operator"});
  expect_sentence(error("rms_norm: [\n"), {"s.yaml:2:1:", "not YAML"});
  expect_sentence(error("llama_mlp:\n  - name: a\n    block_table: here\n"), {"s.yaml:3:18:", "file#tensor"});
  expect_sentence(
      error("column_parallel_linear:\n  - name: a\n    init: {input_size: 4, output_size: 9, tp_size: 2}\n"),
      {"s.yaml:2:5:", "9 output features cannot be divided over 2 ranks"});
  expect_sentence(error_of([] { read_scenarios("/nowhere/at/all.yaml"); }),
                  {"/nowhere/at/all.yaml", "generate-inputs"});
  TempDirectory empty;
  expect_sentence(error_of([&] { read_scenarios(empty.path()); }), {"no .yaml file"});
}

TEST(ScenarioFile, AFolderIsReadWhole) {
  TempDirectory folder;
  folder.write("b.yaml", "softmax:\n  - name: b\n");
  folder.write("a.yaml", "rms_norm:\n  - name: a\n");
  folder.write("note.txt", "not ours");
  std::vector<Scenario> all = read_scenarios(folder.path());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "a");
}

}  // namespace
}  // namespace fk
