// Files of suites: what they say, what is refused and where, and which rows follow from a mode.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/ttft/suite_file.h"
#include "bench/ttft/suite_plan.h"
#include "core/error.h"
#include "models/catalog.h"

namespace fk {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kTwo = R"(
defaults: {load_format: dummy, prompt_tokens: 7, skip: [torch_compile]}
configs:
  - {model: tiny-llama, search_budget: 100, paths: [compiled, eager]}
  - name: ids
    model: tiny-qwen3
    prompt_ids: [3, 1, 4]
    skip: {hf: too slow}
)";

std::string refusal(const std::string& text) {
  try {
    parse_suite(text, "suite.yaml");
  } catch (const UsageError& e) {
    return e.what();
  }
  return "accepted";
}

std::vector<std::string> words(const std::vector<SuiteRow>& rows) {
  std::vector<std::string> result;
  for (const SuiteRow& row : rows)
    result.push_back(row.config->name + " " + row.path + (row.budget ? " " + std::to_string(*row.budget) : "") +
                     (row.skipped.empty() ? "" : " -"));
  return result;
}

TEST(SuiteFile, DefaultsAreThoseOfEveryConfiguration) {
  std::vector<SuiteConfig> configs = parse_suite(kTwo, "suite.yaml");
  ASSERT_EQ(configs.size(), 2u);
  EXPECT_EQ(configs[0].name, "tiny-llama");
  EXPECT_EQ(configs[0].prompt_tokens, 7);
  EXPECT_EQ(configs[0].search_budget, 100);
  EXPECT_EQ(configs[0].load_format, "dummy");
  EXPECT_EQ(configs[1].prompt_tokens, 3);
  EXPECT_THAT(configs[1].prompt_ids, ElementsAre(3, 1, 4));
  EXPECT_EQ(configs[1].skip.at("hf"), "too slow");
  EXPECT_FALSE(configs[1].search_budget);
}

TEST(SuiteFile, RefusalsNameKeyAndLine) {
  EXPECT_THAT(refusal("configs:\n  - model: tiny-llama\n    iteratons: 3\n"),
              testing::AllOf(HasSubstr("suite.yaml:3:"), HasSubstr("'iteratons'"), HasSubstr("iterations")));
  EXPECT_THAT(refusal("configs:\n  - model: a\nconfig: 1\n"), HasSubstr("suite.yaml:3: a suite has no key 'config'"));
  EXPECT_THAT(refusal("configs:\n  - {model: a, paths: [eager, egaer]}\n"), HasSubstr("did you mean eager"));
  EXPECT_THAT(refusal("configs:\n  - {model: a, search_budget: 0}\n"), HasSubstr("search_budget must be from 1"));
  EXPECT_THAT(refusal("configs:\n  - {model: a, decode_tokens: many}\n"), HasSubstr("whole number"));
  EXPECT_THAT(refusal("configs:\n  - {model: a, decode_tokens: 1}\n"), HasSubstr("from 2"));
  EXPECT_THAT(refusal("configs:\n  - {model: a, prompt_ids: [1], prompt_tokens: 4}\n"),
              HasSubstr("leave prompt_tokens"));
  // Also where one of the two is a default.
  EXPECT_THAT(refusal("defaults: {prompt_ids: [1, 2]}\nconfigs:\n  - {model: a, batch_size: 4}\n"),
              HasSubstr("suite.yaml:3: prompt_ids is one prompt"));
  EXPECT_THAT(refusal("defaults: {batch_size: 4}\nconfigs:\n  - {model: a, prompt_ids: [1, 2]}\n"),
              HasSubstr("suite.yaml:3: prompt_ids is one prompt"));
  EXPECT_THAT(refusal("configs: [{model: a, skip: {hf: slow, hf: large}}]\n"), HasSubstr("twice"));
  EXPECT_THAT(refusal("configs:\n  - {model: a}\n  - {model: a}\n"), HasSubstr("suite.yaml:3: the name 'a' is taken"));
  EXPECT_THAT(refusal("configs:\n  - {name: a}\n"), HasSubstr("needs a model"));
  EXPECT_THAT(refusal("defaults: {model: a}\nconfigs: [{model: b}]\n"), HasSubstr("write it under configs"));
  EXPECT_THAT(refusal("configs:\n  - {model: a, model: b}\n"), HasSubstr("twice"));
  EXPECT_THAT(refusal("configs: []\n"), HasSubstr("a list of configurations"));
  EXPECT_THAT(refusal("configs: [{model: a, settle_seconds: .nan}]\n"), HasSubstr("seconds"));
  EXPECT_THAT(refusal("configs: [{model: a, device: [cuda]}]\n"), HasSubstr("device must be a word"));
  EXPECT_THAT(refusal("configs:\n  - {model: a\n"), HasSubstr("this is no YAML"));
  EXPECT_THAT(refusal("configs: " + std::string(100'000, '[')), HasSubstr("no YAML"));
  EXPECT_THAT(refusal("configs:\n  - {model: \"a\\0b\"}\n"), HasSubstr("suite.yaml:2: model must not hold control"));
  EXPECT_THAT(refusal("configs: [{model: a, name: \"b\\nc\"}]\n"), HasSubstr("name must not hold control"));
  EXPECT_THAT(refusal("configs: [{model: a, skip: {hf: \"b\\ec\"}}]\n"), HasSubstr("skip must not hold control"));
  EXPECT_THAT(refusal("configs: [{model: \"a\xff\"}]\n"), HasSubstr("not UTF-8"));
  std::string ids;
  for (int i = 0; i < 32769; ++i) ids += "5,";
  EXPECT_THAT(refusal("configs: [{model: a, prompt_ids: [" + ids + "]}]\n"), HasSubstr("more than 32768"));
  EXPECT_THAT(refusal(""), HasSubstr("'configs'"));
  EXPECT_THAT(refusal("- a\n"), HasSubstr("'configs'"));
  EXPECT_THAT(refusal("{}"), HasSubstr("needs the key 'configs'"));
}

TEST(SuiteFile, ThoseOfTheTreeNameModelsOfTheCatalog) {
  for (const char* name : {"/bench/ttft.yaml", "/bench/ttft-tiny.yaml"}) {
    std::vector<SuiteConfig> configs = read_suite(std::string(FK_SOURCE_DIR) + name);
    EXPECT_EQ(configs.size(), 5u);
    for (const SuiteConfig& config : configs) EXPECT_NE(find_catalog(config.model), nullptr) << config.model;
    EXPECT_EQ(plan_suite(configs, SuiteMode::kUrTest, "").size(), 5 * (5 + 2)) << name;
  }
}

TEST(SuitePlan, ModesGiveTheirRows) {
  std::vector<SuiteConfig> configs = parse_suite(kTwo, "suite.yaml");
  auto plan = [&](SuiteMode mode, const char* chosen = "") { return words(plan_suite(configs, mode, chosen)); };
  EXPECT_THAT(plan(SuiteMode::kAllConfigs),
              ElementsAre("tiny-llama eager", "tiny-llama compiled 100", "ids eager", "ids compiled"));
  EXPECT_THAT(plan(SuiteMode::kSingle, "ids"), ElementsAre("ids eager", "ids compiled"));
  EXPECT_THAT(plan(SuiteMode::kSearchSweep, "ids"),
              ElementsAre("ids compiled 10", "ids compiled 100", "ids compiled 500"));
  EXPECT_THAT(plan(SuiteMode::kUrTestFast, "tiny-llama"),
              ElementsAre("tiny-llama eager", "tiny-llama compiled 100", "tiny-llama candidate", "tiny-llama hf",
                          "tiny-llama torch_compile -"));
  // The budget that was measured is not measured again.
  EXPECT_THAT(plan(SuiteMode::kUrTest, "tiny-llama"),
              ElementsAre("tiny-llama eager", "tiny-llama compiled 100", "tiny-llama candidate", "tiny-llama hf",
                          "tiny-llama torch_compile -", "tiny-llama compiled 10", "tiny-llama compiled 500"));
  // Without a search there is nothing to sweep.
  configs[0].generated_kernels = false;
  EXPECT_THAT(plan(SuiteMode::kSearchSweep, "tiny-llama"), ElementsAre("tiny-llama compiled"));
  EXPECT_THAT(plan(SuiteMode::kAllConfigs, "tiny-llama"), ElementsAre("tiny-llama eager", "tiny-llama compiled"));
  EXPECT_THROW(plan(SuiteMode::kSingle), UsageError);
  EXPECT_THROW(plan(SuiteMode::kAllConfigs, "tiny"), UsageError);
}

TEST(SuitePlan, HigherBudgetsAreSkippedAfterMemoryRanOut) {
  std::vector<SuiteConfig> configs = parse_suite(kTwo, "suite.yaml");
  std::vector<SuiteRow> rows = plan_suite(configs, SuiteMode::kSearchSweep, "");
  MemoryHistory memory;
  EXPECT_EQ(memory.reason(rows[1]), "");
  memory.ran_out(rows[1], int64_t{3} << 30);  // tiny-llama at 100
  EXPECT_EQ(memory.reason(rows[0]), "");
  EXPECT_THAT(memory.reason(rows[1]), HasSubstr("at budget 100 with a peak of 3.00 GiB"));
  EXPECT_NE(memory.reason(rows[2]), "");
  EXPECT_EQ(memory.reason(rows[4]), "");  // another configuration
  SuiteRow other = rows[2];
  other.path = kPathEager;
  EXPECT_EQ(memory.reason(other), "");
  SuiteRow unlimited = rows[2];
  unlimited.budget.reset();
  EXPECT_NE(memory.reason(unlimited), "");
}

}  // namespace
}  // namespace fk
