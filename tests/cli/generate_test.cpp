// generate with several prompts, files, stop strings, penalties, log-probabilities and the checkpoint's own sampling.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/json.h"
#include "tests/cli/csv.h"
#include "tests/cli/program.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

Arguments tiny(const Arguments& more) {
  Arguments all{"generate", "--model", "tiny-llama", "--load-format", "dummy", "--dtype", "f32"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(GenerateVerb, SeveralPromptsGiveWhatEachGivesAlone) {
  Json both = run_json(tiny({"--prompt-token-ids", "5,17,99", "--prompt-token-ids", "7", "--max-tokens", "9"}));
  ASSERT_EQ(both["results"].size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    Json one = run_json(tiny({"--prompt-token-ids", i == 0 ? "5,17,99" : "7", "--max-tokens", "9"}));
    EXPECT_EQ(both["results"][i]["token_ids"], one["token_ids"]);
    EXPECT_EQ(both["results"][i]["prompt_token_ids"], one["prompt_token_ids"]);
    EXPECT_EQ(one["finish_reason"], "length");
  }
  Outcome text = run_program(tiny({"--prompt", "ab", "--prompt", "c", "--max-tokens", "2"}));
  EXPECT_EQ(text.exit_code, 0) << text.err;
  size_t first = text.out.find("== prompt 1 of 2 ==\n<"), second = text.out.find("== prompt 2 of 2 ==\n<");
  EXPECT_EQ(first, 0u) << text.out;
  EXPECT_NE(second, text.out.npos) << text.out;
  EXPECT_NE(text.err.find("2 prompts of 3 tokens together, 4 generated"), text.err.npos) << text.err;
}

TEST(GenerateVerb, SamplesHaveSeedsOfTheirOwn) {
  Json samples = run_json(
      tiny({"--prompt-token-ids", "5,17,99", "--temperature", "1.5", "--n", "3", "--seed", "4", "--max-tokens", "6"}));
  ASSERT_EQ(samples["results"].size(), 3u);
  EXPECT_NE(samples["results"][0]["token_ids"], samples["results"][1]["token_ids"]);
  Json second =
      run_json(tiny({"--prompt-token-ids", "5,17,99", "--temperature", "1.5", "--seed", "5", "--max-tokens", "6"}));
  EXPECT_EQ(samples["results"][1]["token_ids"], second["token_ids"]);
  auto records = parse_csv(run_program(tiny({"--prompt", "ab", "--n", "2", "--max-tokens", "3", "--csv"})).out);
  ASSERT_EQ(records.size(), 7u);
  EXPECT_EQ(records[0], (std::vector<std::string>{"result", "step", "token_id"}));
}

TEST(GenerateVerb, StopTokensAreTokensOfTheModel) {
  for (const char* id : {"320", "5000", "-1"}) {
    Outcome refused = run_program(tiny({"--prompt", "a", "--stop-token-ids", id}));
    EXPECT_EQ(refused.exit_code, 2) << id << refused.err;
    EXPECT_NE(refused.err.find(fmt::format("--stop-token-ids {}", id)), std::string::npos) << refused.err;
  }
  EXPECT_EQ(run_program(tiny({"--prompt", "a", "--max-tokens", "1", "--stop-token-ids", "319"})).exit_code, 0);
}

TEST(GenerateVerb, PromptsComeFromFiles) {
  TempDirectory dir;
  std::string path = dir.write("prompt.txt", "Hello\n");
  Json from_file = run_json(tiny({"--prompt-file", path, "--max-tokens", "4"}));
  EXPECT_EQ(from_file["prompt"], "Hello");
  EXPECT_EQ(from_file["token_ids"], run_json(tiny({"--prompt", "Hello", "--max-tokens", "4"}))["token_ids"]);
}

TEST(GenerateVerb, StopsPenaltiesAndLogprobs) {
  Json whole = run_json(tiny({"--prompt", "Hello", "--max-tokens", "8", "--logprobs", "2"}));
  ASSERT_EQ(whole["logprobs"].size(), 8u);
  EXPECT_EQ(whole["logprobs"][0]["top"][0]["token_id"], whole["token_ids"][0]);
  EXPECT_LT(whole["logprobs"][0]["logprob"].get<double>(), 0);
  std::string third = "<" + whole["token_ids"][2].dump() + ">";
  Json stopped = run_json(tiny({"--prompt", "Hello", "--max-tokens", "8", "--stop", third}));
  EXPECT_EQ(stopped["text"].get<std::string>(),
            whole["text"].get<std::string>().substr(0, stopped["text"].get<std::string>().size()));
  EXPECT_EQ(stopped["finish_reason"], "stop");
  EXPECT_EQ(stopped["stop_reason"], third);
  Json ended =
      run_json(tiny({"--prompt", "Hello", "--max-tokens", "8", "--stop-token-ids", whole["token_ids"][2].dump()}));
  EXPECT_LE(ended["token_ids"].size(), 2u);
  EXPECT_EQ(ended["finish_reason"], "stop");
  // So strong a penalty that no token comes twice.
  Json unlike = run_json(tiny({"--prompt", "Hello", "--max-tokens", "30", "--repetition-penalty", "1000"}));
  std::vector<int64_t> tokens = unlike["token_ids"];
  std::sort(tokens.begin(), tokens.end());
  EXPECT_EQ(std::unique(tokens.begin(), tokens.end()), tokens.end());
}

TEST(GenerateVerb, SaysHowLikelyAPromptIs) {
  const Arguments ids = {"--prompt-token-ids", "5,17,99,3", "--max-tokens", "0", "--prompt-logprobs", "2"};
  Json json = run_json(tiny(ids));
  EXPECT_EQ(json["token_ids"].size(), 0u);
  ASSERT_EQ(json["prompt_logprobs"].size(), 3u);
  double sum = 0;
  for (const Json& one : json["prompt_logprobs"]) {
    sum += one["logprob"].get<double>();
    EXPECT_GE(one["rank"], 1);
    EXPECT_EQ(one["top"].size(), 2u);
  }
  EXPECT_EQ(json["prompt_logprobs"][1]["token_id"], 99);
  EXPECT_NEAR(json["perplexity"].get<double>(), std::exp(-sum / 3), 1e-4 * std::exp(-sum / 3));
  Outcome text = run_program(tiny(ids));
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("perplexity of the prompt: "), text.out.npos) << text.out;
  // Of several texts the prompt is looked at once.
  json = run_json(tiny({"--prompt", "Hello", "--n", "2", "--max-tokens", "2", "--prompt-logprobs", "0"}));
  EXPECT_EQ(json["results"][0]["prompt_logprobs"].size(), 4u);
  EXPECT_FALSE(json["results"][1].contains("prompt_logprobs"));
}

TEST(GenerateVerb, GuessesGiveTheSameTextAndAreCounted) {
  const Arguments prompt = {"--prompt", "abcabcabcabcabc", "--max-tokens", "80"};
  Arguments guessed = prompt;
  guessed.insert(guessed.end(), {"--speculative-config", R"({"method": "ngram", "prompt_lookup_min": 1})"});
  Json plain = run_json(tiny(prompt)), with = run_json(tiny(guessed));
  EXPECT_EQ(with["token_ids"], plain["token_ids"]);
  EXPECT_FALSE(plain.contains("speculation"));
  EXPECT_GT(with["speculation"]["spec_decode_draft_tokens"].get<int64_t>(), 0);
  EXPECT_NE(run_program(tiny(guessed)).err.find("guessed tokens were right"), std::string::npos);
  guessed.back() = R"({"method": "eagle"})";
  Outcome refused = run_program(tiny(guessed));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.err.find("fastkernels: --speculative-config: the methods are \"ngram\", \"draft_model\" and "), 0u)
      << refused.err;
  guessed.back() = "";
  refused = run_program(tiny(guessed));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("--speculative-config: the text is empty"), std::string::npos) << refused.err;
}

TEST(GenerateVerb, ADraftModelGivesTheSameTextAndIsCounted) {
  const Arguments prompts = {"--prompt",      "Once upon", "--prompt",     "a", "--n", "2",
                             "--temperature", "0.8",       "--max-tokens", "40"};
  const Json plain = run_json(tiny(prompts));
  auto guessed_by = [&](const std::string& model) {
    Arguments all = prompts;
    all.insert(all.end(), {"--speculative-config", R"({"num_speculative_tokens": 3, "model": ")" + model + "\"}"});
    return all;
  };
  for (const char* draft : {"tiny-llama", "tiny-gla"}) {
    const Json with = run_json(tiny(guessed_by(draft)));
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(with["results"][i]["token_ids"], plain["results"][i]["token_ids"]) << i;
    const double rate = with["speculation"]["spec_decode_acceptance_rate"].get<double>();
    EXPECT_EQ(rate > 95, std::string(draft) == "tiny-llama") << rate;
  }
  EXPECT_NE(run_program(tiny(guessed_by("tiny-llama"))).err.find("guessed tokens were right"), std::string::npos);

  auto refused = [&](const Arguments& arguments, const char* reason) {
    const Outcome outcome = run_program(arguments);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_NE(outcome.err.find(reason), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  };
  refused(tiny(guessed_by("tiny-llamas")), "tiny-llamas");
  refused(tiny(guessed_by("/nowhere/at/all")), "/nowhere/at/all");
  refused(tiny(guessed_by("tiny-qwen3")), "the vocabulary of tiny-qwen3 has 331 tokens");
  refused(tiny(guessed_by("tiny-xlm-roberta")), "--speculative-config needs a language model");
  Arguments ranks = tiny(guessed_by("tiny-llama"));
  ranks.insert(ranks.end(), {"--tp", "2"});
  refused(ranks, "one rank only");
  Arguments recurrent = guessed_by("tiny-llama");
  recurrent.insert(recurrent.begin(), {"generate", "--model", "tiny-gla", "--load-format", "dummy"});
  refused(recurrent, "tiny-gla has recurrent states");
}

TEST(GenerateVerb, AnEagleHeadGivesTheSameTextAndIsCounted) {
  const Arguments prompts = {"--prompt", "Once upon", "--prompt", "a", "--max-tokens", "40"};
  const Json plain = run_json(tiny(prompts));
  auto guessed_by = [&](const std::string& model) {
    Arguments all = prompts;
    all.insert(all.end(), {"--speculative-config",
                           R"({"method": "eagle3", "num_speculative_tokens": 3, "model": ")" + model + "\"}"});
    return all;
  };
  const Json with = run_json(tiny(guessed_by("tiny-eagle3")));
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(with["results"][i]["token_ids"], plain["results"][i]["token_ids"]) << i;
  EXPECT_GT(with["speculation"]["spec_decode_draft_tokens"].get<int64_t>(), 0);

  auto refused = [&](const Arguments& arguments, const char* reason) {
    const Outcome outcome = run_program(arguments);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_NE(outcome.err.find(reason), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  };
  refused(tiny(guessed_by("tiny-llama")), "needs an EAGLE-3 head");
  refused(tiny(guessed_by("tiny-eagle3-qwen3")), "the vocabulary of tiny-eagle3-qwen3 has 331 tokens");
  refused(tiny(guessed_by("/nowhere/at/all")), "/nowhere/at/all");
  Arguments ranks = tiny(guessed_by("tiny-eagle3"));
  ranks.insert(ranks.end(), {"--tp", "2"});
  refused(ranks, "one rank only");
  Arguments recurrent = guessed_by("tiny-eagle3");
  recurrent.insert(recurrent.begin(), {"generate", "--model", "tiny-gla", "--load-format", "dummy"});
  refused(recurrent, "tiny-gla has recurrent states");
  // A head is run by no verb alone.
  for (const char* verb : {"generate", "ttft", "serve"}) {
    Arguments alone = {verb, "--model", "tiny-eagle3", "--load-format", "dummy"};
    if (alone[0] == "generate") alone.insert(alone.end(), {"--prompt", "x"});
    refused(alone, "is a head that guesses tokens of another model");
  }
}

TEST(GenerateVerb, BatchInvariantTextsAreThoseOfEachAlone) {
  // In bf16, where products of few and many rows differ.
  auto bf16 = [](const Arguments& prompts) {
    Arguments all{"generate", "--model",      "tiny-llama", "--load-format",
                  "dummy",    "--max-tokens", "40",         "--batch-invariant"};
    all.insert(all.end(), prompts.begin(), prompts.end());
    return run_json(all);
  };
  Json both = bf16({"--prompt", "abcdefgh", "--prompt", "x", "--prompt", "abab"});
  size_t i = 0;
  for (const char* text : {"abcdefgh", "x", "abab"})
    EXPECT_EQ(both["results"][i++]["token_ids"], bf16({"--prompt", text})["token_ids"]) << text;
}

TEST(GenerateVerb, TwoRanksRunTheSameBatch) {
  Arguments arguments = tiny({"--prompt-token-ids", "5,17,99", "--prompt-token-ids", "7", "--n", "2", "--temperature",
                              "0.8", "--max-tokens", "6", "--tp", "1"});
  Json one = run_json(arguments);
  arguments.back() = "2";
  Json two = run_json(arguments);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(two["results"][i]["token_ids"], one["results"][i]["token_ids"]) << i;
}

TEST(GenerateVerb, SamplesAsTheCheckpointSays) {
  TempDirectory dir;
  dir.write("config.json",
            R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"intermediate_size":176,
    "num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":320,"hidden_act":"silu",
    "rms_norm_eps":1e-5,"max_position_embeddings":512})");
  dir.write("generation_config.json", R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9})");
  Arguments arguments{"generate", "--model", dir.path(), "--load-format", "dummy", "--prompt-token-ids", "5,17"};
  EXPECT_EQ(run_json(arguments)["sampling"]["temperature"], 0.6);
  EXPECT_EQ(run_json(arguments)["sampling"]["top_p"], 0.9);
  Arguments flags_win = arguments, none = arguments;
  flags_win.insert(flags_win.end(), {"--temperature", "0"});
  EXPECT_EQ(run_json(flags_win)["sampling"]["temperature"], 0.0);
  none.insert(none.end(), {"--generation-config", "none"});
  EXPECT_EQ(run_json(none)["sampling"]["temperature"], 0.0);
  Outcome text = run_program(arguments);
  EXPECT_NE(text.err.find("generation_config.json says: temperature 0.6, top-p 0.9"), text.err.npos) << text.err;
  dir.write("generation_config.json", R"({"do_sample": true, "top_p": 0})");
  Outcome bad = run_program(arguments);
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_NE(bad.err.find("generation_config.json: top-p must be above 0"), bad.err.npos) << bad.err;
}

TEST(GenerateVerb, BadValuesGetOneSentence) {
  TempDirectory dir;
  std::string empty = dir.write("empty.txt", "\n");
  struct Bad {
    Arguments arguments;
    int exit_code;
    std::string says;
  };
  const std::vector<Bad> all = {
      {{"--prompt", "a", "--prompt-token-ids", "1"}, 2, "--prompt"},
      {{"--prompt-file", empty, "--prompt-token-ids", "1"}, 2, "not both"},
      {{"--prompt-file", dir.path() + "/missing"}, 1, "cannot be read"},
      {{"--prompt-file", dir.path()}, 1, "cannot be read"},
      {{"--prompt-file", empty}, 1, "is empty"},
      {{"--prompt-file", "-"}, 1, "Standard input is empty"},
      {{"--prompt-file", "-", "-"}, 2, "standard input"},
      {{"--prompt-file", "-", "--tp", "2"}, 2, "standard input"},
      {{"--prompt", ""}, 2, "empty"},
      {{"--prompt", "a", "--stop", ""}, 2, "--stop"},
      {{"--prompt", "a", "--min-tokens", "17"}, 2, "--min-tokens"},
      {{"--prompt", "a", "--repetition-penalty", "0"}, 2, "repetition penalty"},
      {{"--prompt", "a", "--presence-penalty", "2.5"}, 2, "2.5"},
      {{"--prompt", "a", "--frequency-penalty", "nan"}, 2, "requency"},
      {{"--prompt", "a", "--logprobs", "-1"}, 2, "--logprobs"},
      {{"--prompt", "a", "--prompt-logprobs", "-1"}, 2, "--prompt-logprobs"},
      {{"--prompt", "a", "--max-tokens", "0"}, 2, "--prompt-logprobs"},
      {{"--prompt", "a", "--n", "0"}, 2, "--n"},
      {{"--prompt", "a", "--generation-config", "vllm"}, 2, "--generation-config"},
      {{"--prompt", "a", "--prompt-token-ids", "1,2", "3,x"}, 2, "--prompt"},
      {{"--prompt-token-ids", "1", "--prompt-token-ids", "999"}, 1, "999"},
  };
  for (const Bad& bad : all) {
    Outcome outcome = run_program(tiny(bad.arguments));
    EXPECT_EQ(outcome.exit_code, bad.exit_code) << bad.says << ": " << outcome.err;
    EXPECT_NE(outcome.err.find(bad.says), outcome.err.npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
}

}  // namespace
}  // namespace fk
