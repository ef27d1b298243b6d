// Encoders on the command line: encode, ttft, capture and scenarios of them, and verbs that are not for them.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/json.h"
#include "tests/cli/csv.h"
#include "tests/cli/program.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

const Arguments kTiny = {"encode", "--model", "tiny-xlm-roberta", "--load-format", "dummy"};

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string image_file(int size) {
  std::string path = fs::path(testing::TempDir()) / ("fk_image_" + std::to_string(size) + ".ppm");
  std::ofstream file(path, std::ios::binary);
  file << "P6 " << size << ' ' << size << " 255\n";
  for (int i = 0; i < size * size * 3; ++i) file << static_cast<char>(i * 7 % 256);
  return path;
}

TEST(EncodeVerb, GivesNormalisedVectorsThatDoNotDependOnTheBatch) {
  Json both = run_json(with(kTiny, {"--prompt-token-ids", "0,5,9,2", "--prompt-token-ids", "0,7,2", "--dtype", "f32"}));
  Json one = run_json(with(kTiny, {"--prompt-token-ids", "0,7,2", "--dtype", "f32"}));
  ASSERT_EQ(both["embeddings"].size(), 2u);
  EXPECT_EQ(both["tokens"], Json({4, 3}));
  double squares = 0;
  for (size_t i = 0; i < 64; ++i) {
    double x = both["embeddings"][1][i];
    squares += x * x;
    EXPECT_NEAR(x, one["embeddings"][0][i].get<double>(), 1e-6) << i;
  }
  EXPECT_NEAR(squares, 1, 1e-5);
  EXPECT_EQ(both["pooling"], "cls");
  EXPECT_EQ(both["hidden_size"], 64);
}

TEST(EncodeVerb, PoolsAsAsked) {
  std::vector<double> lengths;
  for (const char* pooling : {"cls", "mean", "last", "pooler"}) {
    Json json = run_json(with(kTiny, {"--prompt", "a text", "--pooling", pooling, "--no-normalize"}));
    EXPECT_FALSE(json["normalized"].get<bool>());
    double squares = 0;
    for (double x : json["embeddings"][0]) squares += x * x;
    for (double other : lengths) EXPECT_NE(other, squares);
    lengths.push_back(squares);
  }
}

TEST(EncodeVerb, PrintsASummaryAndWholeVectorsAsCsv) {
  Arguments two = with(kTiny, {"--prompt", "one text", "--prompt", "another"});
  Outcome text = run_program(two);
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("2 texts, vectors of 64 numbers, pooling cls, normalised"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("cosine similarity"), std::string::npos);
  auto records = parse_csv(run_program(with(two, {"--csv"})).out);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[2].size(), 2u + 64u);
}

TEST(EncodeVerb, EncodesImages) {
  Json json = run_json({"encode", "--model", "tiny-siglip", "--load-format", "dummy", "--image", image_file(32)});
  EXPECT_EQ(json["embeddings"][0].size(), 64u);
  EXPECT_EQ(json["pooling"], "pooler");
  Outcome wrong = run_program({"encode", "--model", "tiny-siglip", "--load-format", "dummy", "--image", image_file(8)});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_NE(wrong.err.find("8 x 8 pixels, and the model takes 32 x 32"), std::string::npos) << wrong.err;
}

TEST(EncodeVerb, WrongModelsAndInputsAreNamed) {
  auto refused = [](const Arguments& arguments, int exit_code, const std::string& words) {
    Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  };
  refused({"encode", "--model", "tiny-llama", "--load-format", "dummy", "--prompt", "x"}, 1, "fastkernels generate");
  refused({"generate", "--model", "tiny-xlm-roberta", "--load-format", "dummy", "--prompt", "x"}, 1,
          "fastkernels encode");
  refused(kTiny, 2, "--prompt");
  refused(with(kTiny, {"--prompt", ""}), 2, "empty");
  refused(with(kTiny, {"--image", "a.ppm"}), 2, "is a text encoder");
  refused(with(kTiny, {"--prompt-token-ids", "0,320"}), 1, "outside the vocabulary");
  refused(with(kTiny, {"--prompt-token-ids", "0,x"}), 2, "whole numbers");
  refused(with(kTiny, {"--prompt", std::string(129, 'a')}), 1, "at most 128 tokens");
  refused({"encode", "--model", "tiny-xlm-roberta-masked", "--load-format", "dummy", "--prompt", "x", "--pooling",
           "pooler"},
          1, "no pooling head");
  refused({"encode", "--model", "tiny-siglip", "--load-format", "dummy", "--prompt", "x"}, 2, "give it an --image");
}

TEST(EncodeVerb, ATokenizerThatIsNotSupportedIsRefusedWithTheWayAround) {
  fs::path folder = fs::path(testing::TempDir()) / "fk_unigram";
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << R"({"architectures": ["XLMRobertaModel"], "hidden_size": 8,
    "num_attention_heads": 2, "intermediate_size": 8, "num_hidden_layers": 1, "vocab_size": 9})";
  std::ofstream(folder / "tokenizer.json") << R"({"model": {"type": "Unigram", "vocab": [["<unk>", 0.0]]}})";
  Arguments encode = {"encode", "--model", folder.string(), "--load-format", "dummy"};
  Outcome text = run_program(with(encode, {"--prompt", "hello"}));
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_NE(text.err.find("'Unigram', which is not supported"), std::string::npos) << text.err;
  EXPECT_NE(text.err.find("give --prompt-token-ids"), std::string::npos) << text.err;
  EXPECT_EQ(run_program(with(encode, {"--prompt-token-ids", "0,5,2"})).exit_code, 0);
  fs::remove_all(folder);
}

TEST(TtftVerb, TimesOnePassOfAnEncoder) {
  for (const char* model : {"tiny-xlm-roberta", "tiny-siglip"}) {
    Json json = run_json({"ttft", "--model", model, "--load-format", "dummy", "--batch-size", "3", "--iters", "2",
                          "--no-floors", "--no-history"});
    const Json& row = json["results"][0];
    EXPECT_GT(row["ttft_prefill_ms"].get<double>(), 0);
    EXPECT_TRUE(row["tpot_ms"].is_null());
    EXPECT_FALSE(json["samples"].contains("decode"));
    EXPECT_GT(row["tokens_per_second"].get<double>(), 0);
  }
  Outcome text =
      run_program({"ttft", "--model", "tiny-siglip", "--load-format", "dummy", "--no-floors", "--no-history"});
  EXPECT_NE(text.out.find("1 image"), std::string::npos) << text.out;
}

TEST(CaptureVerb, RecordsEncoders) {
  std::string path = fs::path(testing::TempDir()) / "fk_encoder.yaml";
  for (const char* verb : {"capture", "capture-golden"}) {
    Json json = run_json({verb, "--model", "tiny-xlm-roberta", "--load-format", "dummy", "--prompt-tokens", "9",
                          "--prompt-tokens", "4", "--out", path});
    EXPECT_TRUE(json["unmatched"].empty()) << json["unmatched"];
    std::set<std::string> operators;
    for (const Json& row : json["operators"]) operators.insert(row["operator"]);
    EXPECT_TRUE(operators.contains("encoder_only_attention") && operators.contains("bert_layer"));
  }
  Json images =
      run_json({"capture", "--model", "tiny-siglip", "--load-format", "dummy", "--images", "2", "--out", path});
  EXPECT_TRUE(images["unmatched"].empty()) << images["unmatched"];
  fs::remove(path);
  fs::remove(fs::path(path).replace_extension(".safetensors"));
}

}  // namespace
}  // namespace fk
