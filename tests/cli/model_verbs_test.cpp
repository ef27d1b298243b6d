// The verbs that use models: list, generate and ttft, with good and bad input.
#include <gtest/gtest.h>

#include <set>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/json.h"
#include "tests/cli/csv.h"
#include "tests/cli/program.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

TEST(ListVerb, NamesModelsAndOperators) {
  Json json = run_json({"list"});
  auto named = [](const Json& rows, const char* key, const char* name) {
    return std::count_if(rows.begin(), rows.end(), [&](const Json& row) { return row.at(key) == name; });
  };
  for (const char* model : {"llama-3.2-1b", "mistral-7b", "qwen3-4b", "gemma3-4b", "tiny-llama"})
    EXPECT_EQ(named(json["models"], "model", model), 1) << model;
  for (const char* op :
       {"linear", "rms_norm", "flash_attn_decode", "llama_mlp", "gemma3_decoder_layer", "qwen3_for_causal_lm"})
    EXPECT_EQ(named(json["operators"], "operator", op), 1) << op;
}

// Bytes hold several elements of some weight formats.
TEST(ListVerb, CountsElementsOfQuantisedModels) {
  Json json = run_json({"list"});
  auto billions = [&](const char* model) {
    for (const Json& row : json["models"])
      if (row["model"] == model) return row["parameters"].get<double>() * 1e-9;
    return 0.0;
  };
  EXPECT_NEAR(billions("gpt-oss-20b"), 20.91, 0.01);
  EXPECT_NEAR(billions("bitnet-b1.58-2b-4t"), 2.41, 0.01);
}

TEST(ListVerb, LevelSelects) {
  for (int level = 1; level <= 4; ++level) {
    Json json = run_json({"list", "--level", std::to_string(level)});
    EXPECT_FALSE(json["operators"].empty());
    for (const Json& row : json["operators"]) EXPECT_EQ(row["level"], level);
  }
  auto records = parse_csv(run_program({"list", "--level", "3", "--csv"}).out);
  EXPECT_EQ(records.size(), 1 + run_json({"list", "--level", "3"})["operators"].size());  // after a header
}

TEST(ListVerb, NamesTheKernelsWithoutADefinition) {
  std::set<std::string> opaque;
  Json json = run_json({"list", "--opaque"});
  for (const Json& row : json["operators"]) {
    EXPECT_EQ(row["level"], 1);
    opaque.insert(row["operator"].get<std::string>());
  }
  EXPECT_TRUE(opaque.contains("sample"));
  EXPECT_TRUE(opaque.contains("allreduce"));
  EXPECT_FALSE(opaque.contains("rms_norm"));
  EXPECT_EQ(run_program({"list", "--opaque", "--level", "2"}).exit_code, 2);
}

TEST(ListVerb, CsvHoldsModelsAndOperators) {
  Outcome csv = run_program({"list", "--csv"});
  ASSERT_EQ(csv.exit_code, 0) << csv.err;
  auto records = parse_csv(csv.out);
  Json json = run_json({"list"});
  EXPECT_EQ(records.size(), 1 + json["models"].size() + json["operators"].size());
  auto holds = [&](const char* kind, const char* name) {
    return std::any_of(records.begin(), records.end(), [&](const auto& r) { return r[0] == kind && r[1] == name; });
  };
  EXPECT_TRUE(holds("model", "qwen3-4b"));
  EXPECT_TRUE(holds("operator", "rms_norm"));
}

// Counted from the tree that is really built: a layer of Llama has two norms, and the model one more.
TEST(ListVerb, MapCountsWhatAModelBuilds) {
  Json json = run_json({"list", "--map"});
  auto count = [&](const char* model, const char* op) {
    for (const Json& row : json["map"])
      if (row["model"] == model && row["operator"] == op) return row["count"].get<int64_t>();
    return int64_t{0};
  };
  EXPECT_EQ(count("llama-3.2-1b", "rms_norm"), 16 * 2 + 1);
  EXPECT_EQ(count("qwen3-0.6b", "rms_norm"), 28 * 4 + 1);
  EXPECT_EQ(count("gemma3-1b", "gemma_rms_norm"), 26 * 6 + 1);
}

// The catalog's tiny models are those of the golden data, so the program must print transformers' tokens.
TEST(GenerateVerb, PrintsTransformersGreedyTokens) {
  for (const char* name : {"tiny-llama", "tiny-mistral", "tiny-qwen3", "tiny-gemma3"}) {
    Json golden = parse_json_file(std::string(FK_SOURCE_DIR "/tests/golden/data/") + name + ".json");
    const Json& greedy = *std::find_if(golden["cases"].begin(), golden["cases"].end(),
                                       [](const Json& c) { return c["name"] == "greedy"; });
    std::string ids = greedy["prompts"][0].dump();
    ids = ids.substr(1, ids.size() - 2);  // without the brackets
    Json json = run_json({"generate", "--model", name, "--load-format", "dummy", "--dtype", "f32", "--prompt-token-ids",
                          ids, "--max-tokens", "20"});
    EXPECT_EQ(json["token_ids"], greedy["tokens"][0]) << name;
    EXPECT_FALSE(json["dispatches"].empty());
    for (const Json& d : json["dispatches"]) {
      EXPECT_NE(d["implementation"], "oracle") << d["operator"];
      EXPECT_GT(d["calls"], 0) << d["operator"];
    }
  }
}

TEST(GenerateVerb, TheSameSeedDrawsTheSameText) {
  auto draw = [](const char* seed, const char* threads) {
    return run_json({"generate", "--model", "tiny-llama", "--load-format", "dummy", "--prompt", "Hello",
                     "--temperature", "1.5", "--seed", seed, "--threads", threads})["token_ids"];
  };
  EXPECT_EQ(draw("1", "1"), draw("1", "2"));
  EXPECT_NE(draw("1", "1"), draw("2", "1"));
}

TEST(TtftVerb, SlowReportsTimesRatesAndWhatRan) {
  Arguments arguments{"ttft", "--model",         "tiny-gemma3", "--load-format", "dummy", "--prompt-tokens",
                      "20",   "--decode-tokens", "4",           "--iters",       "2"};
  Json json = run_json(arguments);
  const Json& row = json["results"][0];
  for (const char* key : {"ttft_sequential_ms", "ttft_prefill_ms", "tpot_ms", "tokens_per_second", "decode_gbps",
                          "decode_floor_share", "prefill_tflops", "peak_memory_bytes"})
    EXPECT_GT(row.at(key).get<double>(), 0) << key;
  EXPECT_NEAR(row["tokens_per_second"].get<double>() * row["tpot_ms"].get<double>(), 1000, 1e-6);
  EXPECT_EQ(json["samples"]["decode"]["samples_ms"].size(), 2u);
  // One warm-up and two iterations; each 20 passes token by token, one prefill, four decode steps; six layers.
  int64_t norms = 0;
  for (const Json& d : json["dispatches"]) {
    EXPECT_NE(d["implementation"], "oracle") << d["operator"];
    if (d["operator"] == "gemma3_attention") norms += d["calls"].get<int64_t>();
  }
  EXPECT_EQ(norms, 3 * 6 * (20 + 1 + 4));
  arguments.insert(arguments.end(), {"--no-sequential", "--no-floors", "--csv"});
  auto records = parse_csv(run_program(arguments).out);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].size(), records[1].size());
}

struct BadInput {
  Arguments arguments;
  int exit_code;
  std::string says;  // a part of the sentence
};

TEST(BadInputs, OneSentenceAndTheRightExitCode) {
  fs::path folder = fs::path(testing::TempDir()) / "fk_bad_inputs";
  fs::remove_all(folder);
  auto directory = [&](const std::string& name, const std::string& config, const std::string& tokenizer = "") {
    fs::create_directories(folder / name);
    std::ofstream(folder / name / "config.json") << config;
    if (!tokenizer.empty()) std::ofstream(folder / name / "tokenizer.json") << tokenizer;
    return (folder / name).string();
  };
  std::string tiny =
      R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"intermediate_size":176,
    "num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":320,"hidden_act":"silu","rms_norm_eps":1e-5,"max_position_embeddings":512})";
  std::string unknown = directory("unknown", R"({"architectures":["T5ForConditionalGeneration"]})");
  std::string malformed = directory("malformed", "{\"architectures\": [");
  std::string deep = directory("deep", std::string(100000, '['));
  std::string no_weights = directory("no_weights", tiny);
  std::string bad_tokenizer = directory("bad_tokenizer", tiny, "{\"model\": 3}");
  std::ofstream(fs::path(directory("truncated", tiny)) / "model.safetensors") << "short";
  Arguments tiny_llama{"--model", "tiny-llama", "--load-format", "dummy"};
  auto with = [&](const std::string& verb, const Arguments& more) {
    Arguments all{verb};
    all.insert(all.end(), tiny_llama.begin(), tiny_llama.end());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::vector<BadInput> inputs = {
      {{"generate", "--model", "tiny-lama", "--load-format", "dummy", "--prompt", "x"}, 1, "tiny-llama"},
      {{"generate", "--model", unknown, "--prompt", "x"}, 1, "Gemma3ForCausalLM"},
      {{"generate", "--model", malformed, "--prompt", "x"}, 1, "JSON"},
      {{"generate", "--model", deep, "--prompt", "x"}, 1, "nested"},
      {{"generate", "--model", no_weights, "--prompt-token-ids", "1"}, 1, "safetensors"},
      {{"generate", "--model", (folder / "truncated").string(), "--prompt-token-ids", "1"}, 1, "safetensors"},
      {{"generate", "--model", bad_tokenizer, "--load-format", "dummy", "--prompt", "x"}, 1, "tokenizer"},
      {{"generate", "--model", no_weights, "--prompt", "x"}, 1, "tokenizer.json"},
      {{"generate", "--model", "tiny-llama", "--prompt", "x"}, 1, "--load-format dummy"},
      {with("generate", {"--prompt-token-ids", "1", "--max-tokens", "512"}), 1, "512"},
      {with("generate", {"--prompt-token-ids", "999"}), 1, "999"},
      {with("generate", {"--prompt-token-ids", "-4"}), 1, "-4"},
      {with("generate", {}), 2, "--prompt"},
      {with("generate", {"--prompt", "x", "--cxxflags", "-O2 '-DX=a b"}), 2, "quote that it does not close"},
      {with("generate", {"--prompt", "x", "--max-tokens", "0"}), 2, "--max-tokens"},
      {with("generate", {"--prompt", "x", "--temperature", "-1"}), 2, "temperature"},
      {with("generate", {"--prompt", "x", "--top-p", "0"}), 2, "top-p"},
      {with("generate", {"--prompt", "x", "--dtype", "int4"}), 2, "--dtype"},
      {with("generate", {"--prompt", "x", "--device", "cuda"}), 2, "CUDA"},
      {with("ttft", {"--prompt-tokens", "0"}), 2, "--prompt-tokens"},
      {with("ttft", {"--decode-tokens", "1"}), 2, "--decode-tokens"},
      {with("ttft", {"--iters", "0"}), 2, "--iters"},
      {{"ttft", "--model", malformed, "--decode-tokens", "1"}, 2, "--decode-tokens"},  // before anything is loaded
      {with("ttft", {"--prompt-tokens", "99999999999999999999"}), 2, "--prompt-tokens"},
      {with("ttft", {"--batch-size", "9223372036854775807"}), 2, "--batch-size"},
      {with("generate", {"--prompt", "a", "--weight-seed", "-1"}), 2, "--weight-seed"},
      {with("generate", {"--prompt", "a", "--weight-seed", "99999999999999999999"}), 2, "--weight-seed"},
      {with("generate", {"--prompt", "a", "--temperature", "1", "--top-k", "99999999999999999999"}), 2, "--top-k"},
      {with("generate", {"--prompt-token-ids", "1,,2"}), 2, "1,,2"},
      {with("generate", {"--prompt-token-ids", "1,2x"}), 2, "1,2x"},
      {with("generate", {"--prompt-token-ids", "99999999999999999999"}), 2, "99999999999999999999"},
      {with("ttft", {"--prompt-tokens", "600"}), 1, "512"},
      {with("ttft", {"--threads", "0"}), 2, "--threads"},
      {{"ttft", "--model", "llama-3.1-70b", "--load-format", "dummy", "--dtype", "f32"}, 1, "GiB"},
      {{"ttft"}, 2, "--model"},
      {{"list", "--level", "7"}, 2, "--level"},
  };
  for (const BadInput& input : inputs) {
    std::string about;
    for (const std::string& word : input.arguments) about.append(word).append(" ");
    Outcome outcome = run_program(input.arguments);
    EXPECT_EQ(outcome.exit_code, input.exit_code) << about << outcome.err;
    EXPECT_EQ(outcome.out, "") << about;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << about << outcome.err;
    EXPECT_NE(outcome.err.find(input.says), std::string::npos) << about << outcome.err;
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace fk
