// A recorded run: its counts are those of the model, its file can be read back, and everything in it runs.
#include "bench/scenarios/capture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "bench/scenarios/scenario_data.h"
#include "bench/scenarios/scenario_file.h"
#include "models/safetensors.h"
#include "models/safetensors_writer.h"
#include "tests/models/error_text.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

Model dummy(const char* name, ThreadPool& pool) {
  return load_model(resolve_model(name), {.format = LoadFormat::kDummy}, pool);
}

std::vector<int64_t> prompt(int64_t n) {
  std::vector<int64_t> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), int64_t{5});
  return ids;
}

int64_t calls(const std::vector<Scenario>& scenarios, std::string_view op) {
  int64_t n = 0;
  for (const Scenario& s : scenarios)
    if (s.op == op) n += s.count;
  return n;
}

class CaptureTest : public testing::TestWithParam<const char*> {};

TEST_P(CaptureTest, EveryRecordedScenarioRuns) {
  ThreadPool pool(1);
  Model model = dummy(GetParam(), pool);
  TempDirectory folder;
  std::string path = folder.path() + "/run.yaml";
  Capture capture = capture_to_file(
      model, pool, {.inputs = {.texts = {prompt(23), prompt(9), prompt(31)}}, .decode_tokens = 20}, path);
  EXPECT_EQ(capture.unmatched, std::vector<std::string>());
  std::vector<Scenario> read = read_scenarios(path);
  ASSERT_EQ(read.size(), capture.scenarios.size());
  for (size_t i = 0; i < read.size(); ++i) EXPECT_TRUE(read[i] == capture.scenarios[i]) << read[i].name;

  int64_t steps = 21, layers = model.config.facts.num_hidden_layers;
  EXPECT_EQ(calls(read, "attention"), steps * layers);
  EXPECT_EQ(calls(read, "flash_attn_decode"), (steps - 1) * layers);
  EXPECT_EQ(calls(read, "flash_attn_prefill"), layers);
  EXPECT_EQ(calls(read, "argmax"), steps);
  EXPECT_EQ(calls(read, "index_select"), 2 * steps);
  // Twenty steps of growing contexts give a few scenarios, not twenty: 23 + 20, 9 + 20 and 31 + 20 keys fill new blocks
  // six times in total.
  auto decodes = std::count_if(read.begin(), read.end(), [](const Scenario& s) { return s.op == "flash_attn_decode"; });
  EXPECT_GE(decodes, 3);
  EXPECT_LE(decodes, 14);
  std::vector<Tensor> outputs;
  for (const Scenario& s : read) ASSERT_NO_THROW(run_scenario_once(s, 3, pool, outputs)) << s.op << " " << s.name;
}

TEST_P(CaptureTest, GoldenValuesAreThoseOfTheRun) {
  ThreadPool pool(1);
  Model model = dummy(GetParam(), pool);
  TempDirectory folder;
  std::string path = folder.path() + "/run.yaml";
  Capture capture = capture_to_file(
      model, pool, {.inputs = {.texts = {prompt(23), prompt(9)}}, .decode_tokens = 2, .golden = true}, path);
  EXPECT_GT(capture.tensors, 10);
  // The file can be moved with its tensors.
  std::filesystem::rename(folder.path(), folder.path() + "_moved");
  std::vector<Scenario> read = read_scenarios(folder.path() + "_moved/run.yaml");
  int models = 0;
  for (const Scenario& s : read) {
    std::unique_ptr<Node> root = s.info().build(s.init, {});
    CallData data = ScenarioInputs(s).make_recorded(*root, s.workload, 99);
    std::vector<Tensor> outputs;
    ASSERT_NO_THROW(run_scenario_once(s, 3, pool, outputs)) << s.op << " " << s.name;
    if (s.info().level != 4 || s.workload.num_tokens() != 32) continue;
    ++models;
    std::vector<int64_t> ids = prompt(23), second = prompt(9);
    ids.insert(ids.end(), second.begin(), second.end());
    for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(data.given[0]->ptr<int64_t>()[i], ids[i]);
    // The engine allocates blocks in its own order; tables from the seed would differ.
    const SequenceGroup& group = data.batch->attention().prefill;
    Tensor table = read_golden(s.block_table);
    for (int64_t b = 0; b < 2; ++b) EXPECT_EQ(get(group.block_table, 0, b), get(table.view(), 0, b));
    EXPECT_EQ(get(data.batch->attention().slot_mapping, 17), 16 * get(table.view(), 0, 1) + 1);
  }
  EXPECT_EQ(models, 1);
  std::filesystem::remove_all(folder.path() + "_moved");
}

INSTANTIATE_TEST_SUITE_P(Models, CaptureTest,
                         testing::Values("tiny-llama", "tiny-mistral-window", "tiny-qwen3", "tiny-gemma3"));

TEST(Golden, AFileThatDoesNotFitIsRefused) {
  TempDirectory folder;
  Tensor ids({3}, DType::kI64);
  write_safetensors(folder.path() + "/g.safetensors", {{"ids", ids}});
  auto error = [&](const std::string& golden) {
    std::string text =
        "embedding:\n  - name: a\n    init: {num_embeddings: 9, embedding_dim: 4}\n"
        "    workload: {sequences: [[4, 0]]}\n    inputs:\n      input_ids: {golden: \"" +
        golden + "\"}\n";
    Scenario s = parse_scenarios(text, folder.path() + "/s.yaml").at(0);
    return error_of([&] { ScenarioInputs inputs(s); });
  };
  expect_sentence(error("g.safetensors#ids"), {"i64[3]", "input_ids", "i64[4]"});
  expect_sentence(error("g.safetensors#other"), {"no tensor 'other'", "capture-golden"});
  expect_sentence(error("gone.safetensors#ids"), {"gone.safetensors"});
}

TEST(SafetensorsWriter, IsReadBack) {
  TempDirectory folder;
  std::string path = folder.path() + "/t.safetensors";
  Tensor a({2, 3}, DType::kI32), b(Shape{}, DType::kF64), c({0, 4}, DType::kBF16);
  for (int i = 0; i < 6; ++i) a.ptr<int32_t>()[i] = i * i;
  b.ptr<double>()[0] = 2.5;
  write_safetensors(path, {{"a", a}, {"b \"quoted\"", b}, {"c", c}});
  SafetensorsFile file = SafetensorsFile::open(path);
  ASSERT_EQ(file.entries().size(), 3u);
  Tensor again = read_golden(path + "#a");
  EXPECT_EQ(get(again.view(), 1, 2), 25);
  EXPECT_EQ(load_element(read_golden(path + "#b \"quoted\"").view().data(), DType::kF64), 2.5);
  expect_sentence(error_of([] { write_safetensors("/nowhere/t.safetensors", {}); }), {"/nowhere/t.safetensors"});
}

}  // namespace
}  // namespace fk
