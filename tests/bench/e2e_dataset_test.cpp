// Datasets have the lengths that vLLM's flags mean, repeat with their seed, and say which line is wrong.
#include "bench/e2e/dataset.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/error.h"

namespace fk {
namespace {

class TextFile {
 public:
  explicit TextFile(const std::string& text)
      : path_(::testing::TempDir() + "dataset_" + ::testing::UnitTest::GetInstance()->current_test_info()->name() +
              ".txt") {
    std::ofstream(path_) << text;
  }
  ~TextFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string dataset_error(const DatasetOptions& options, const PromptTokens& tokens) {
  try {
    make_requests(options, tokens);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Dataset, RandomLengthsFillTheRange) {
  DatasetOptions o;
  o.num_prompts = 400;
  o.random_input_len = 10;
  o.random_output_len = 4;
  o.random_range_ratio = 0.25;  // 7.5 .. 12.5 and 3 .. 5, rounded outwards
  std::set<size_t> inputs;
  std::set<int64_t> outputs;
  for (const BenchRequest& r : make_requests(o, {.vocab_size = 50})) {
    inputs.insert(r.prompt_tokens.size());
    outputs.insert(r.output_len);
    for (int64_t id : r.prompt_tokens) EXPECT_TRUE(id >= 0 && id < 50);
  }
  EXPECT_EQ(inputs, (std::set<size_t>{7, 8, 9, 10, 11, 12, 13}));
  EXPECT_EQ(outputs, (std::set<int64_t>{3, 4, 5}));
}

TEST(Dataset, RandomPromptsShareThePrefixAndRepeatWithTheSeed) {
  DatasetOptions o;
  o.num_prompts = 3;
  o.random_input_len = 4;
  o.random_prefix_len = 5;
  std::vector<BenchRequest> once = make_requests(o, {.vocab_size = 1000}),
                            again = make_requests(o, {.vocab_size = 1000});
  for (size_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(once[i].prompt_tokens, again[i].prompt_tokens);
    EXPECT_EQ(once[i].prompt_tokens.size(), 9u);
    EXPECT_TRUE(
        std::equal(once[i].prompt_tokens.begin(), once[i].prompt_tokens.begin() + 5, once[0].prompt_tokens.begin()));
  }
  o.seed = 1;
  EXPECT_NE(make_requests(o, {.vocab_size = 1000})[0].prompt_tokens, once[0].prompt_tokens);
}

// Equal prompts, or equal first blocks of the KV cache, would be answered by the prefix cache and not be computed.
TEST(Dataset, RandomPromptsShareNoBlockThatACacheCouldAnswer) {
  constexpr int64_t kBlock = 16;
  DatasetOptions o;
  o.random_input_len = 32;
  std::set<std::vector<int64_t>> whole, first_blocks;
  for (uint64_t load = 0; load < 2; ++load) {  // of one command: each load has the next seed
    o.seed = load;
    for (const BenchRequest& r : make_requests(o, {.vocab_size = 256})) {
      whole.insert(r.prompt_tokens);
      first_blocks.emplace(r.prompt_tokens.begin(), r.prompt_tokens.begin() + kBlock);
    }
  }
  EXPECT_EQ(whole.size(), 2000u);
  EXPECT_EQ(first_blocks.size(), 2000u);
}

TEST(Dataset, PrefixRepetitionHasAsManyPrefixes) {
  DatasetOptions o;
  o.name = "prefix-repetition";
  o.num_prompts = 7;
  o.num_prefixes = 3;
  o.prefix_len = 6;
  o.suffix_len = 2;
  std::set<std::vector<int64_t>> prefixes, whole;
  for (const BenchRequest& r : make_requests(o, {.vocab_size = 30000})) {
    ASSERT_EQ(r.prompt_tokens.size(), 8u);
    prefixes.emplace(r.prompt_tokens.begin(), r.prompt_tokens.begin() + 6);
    whole.insert(r.prompt_tokens);
  }
  EXPECT_EQ(prefixes.size(), 3u);
  EXPECT_EQ(whole.size(), 7u);
  o.num_prefixes = 8;
  EXPECT_NE(dataset_error(o, {.vocab_size = 30}).find("more than the 7 prompts"), std::string::npos);
}

TEST(Dataset, CustomLinesAreReadAndRepeated) {
  TextFile file("{\"prompt\": \"one\", \"output_tokens\": 5}\n\n{\"prompt\": \"two\", \"more\": []}\r\n");
  DatasetOptions o;
  o.name = "custom";
  o.path = file.path();
  o.num_prompts = 3;
  std::vector<std::string> warnings;
  o.warn = [&](const std::string& text) { warnings.push_back(text); };
  std::vector<BenchRequest> r = make_requests(o, {});
  EXPECT_EQ(warnings, (std::vector<std::string>{"2 prompts of " + file.path() + " are repeated to make 3."}));
  ASSERT_EQ(r.size(), 3u);
  EXPECT_EQ(r[0].prompt, "one");
  EXPECT_EQ(r[0].output_len, 5);
  EXPECT_EQ(r[1].output_len, 256);
  EXPECT_EQ(r[2].prompt, "one");
  EXPECT_TRUE(r[0].prompt_tokens.empty());
  EXPECT_EQ(make_requests(o, {.vocab_size = 256, .bytes_are_tokens = true})[1].prompt_tokens,
            (std::vector<int64_t>{'t', 'w', 'o'}));
}

TEST(Dataset, TheLineThatIsWrongIsNamed) {
  DatasetOptions o;
  o.name = "custom";
  for (const char* second : {"{\"prompt\": ", "[]", "{\"text\": \"x\"}", "{\"prompt\": 3}", "{\"prompt\": \"\"}",
                             "{\"prompt\": \"x\", \"output_tokens\": 0}", "\xff"}) {
    TextFile file(std::string("{\"prompt\": \"fine\"}\n") + second + "\n");
    o.path = file.path();
    const std::string error = dataset_error(o, {});
    EXPECT_EQ(error.find("Line 2 of"), 0u) << second << ": " << error;
    EXPECT_EQ(error.find("line 1"), std::string::npos) << "the text is one line: " << error;
  }
  TextFile empty("\n\n");
  o.path = empty.path();
  EXPECT_NE(dataset_error(o, {}).find("has no prompt"), std::string::npos);
}

TEST(Dataset, ShareGptTakesTheFirstTwoTurns) {
  TextFile file(R"([{"conversations": [{"from": "human", "value": "question"}, {"from": "gpt", "value": "answers"}]},
                    {"conversations": [{"from": "human", "value": "alone"}]},
                    {"conversations": [{"from": "human", "value": "no"}, {"from": "gpt", "value": "too short"}]}])");
  DatasetOptions o;
  o.name = "sharegpt";
  o.path = file.path();
  o.num_prompts = 2;
  std::vector<BenchRequest> r = make_requests(o, {.vocab_size = 256, .bytes_are_tokens = true});
  ASSERT_EQ(r.size(), 2u);
  EXPECT_EQ(r[0].prompt, "question");
  EXPECT_EQ(r[0].output_len, 7);
  EXPECT_NE(dataset_error(o, {}).find("--tokenizer"), std::string::npos);
  o.sharegpt_output_len = 9;
  EXPECT_EQ(make_requests(o, {})[0].output_len, 9);
}

TEST(Dataset, TheEntryOfShareGptThatIsWrongIsNamed) {
  TextFile file(R"([{"conversations": []}, {"conversations": [{"value": 1}, {}]}])");
  DatasetOptions o;
  o.name = "sharegpt";
  o.path = file.path();
  o.sharegpt_output_len = 1;
  EXPECT_NE(dataset_error(o, {}).find("Entry 2 of"), std::string::npos);
  o.path = "";
  EXPECT_NE(dataset_error(o, {}).find("--dataset-path"), std::string::npos);
}

TEST(Dataset, OptionsOutOfRangeAreRefused) {
  DatasetOptions o;
  o.random_range_ratio = 1;
  EXPECT_NE(dataset_error(o, {.vocab_size = 9}).find("--random-range-ratio"), std::string::npos);
  o.random_range_ratio = 0;
  EXPECT_NE(dataset_error(o, {}).find("--tokenizer"), std::string::npos);
}

}  // namespace
}  // namespace fk
