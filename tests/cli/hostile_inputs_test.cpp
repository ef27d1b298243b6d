// Bad or hostile inputs: names with terminal control characters, pipes, files in other formats.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "core/json.h"
#include "tests/cli/program.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTinyConfig =
    R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"intermediate_size":176,
    "num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":320,"rms_norm_eps":1e-5,
    "max_position_embeddings":2147483647})";
constexpr const char* kScenario =
    "rms_norm:\n  - name: \"a\\eb\"\n    init: {hidden_size: 64}\n    workload: {sequences: [[4, 0]], dtype: f32}\n";

Arguments dummy(const std::string& model, const Arguments& more) {
  Arguments all{"generate", "--model", model, "--load-format", "dummy"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

void expect_refusal(const Arguments& arguments, int code, const std::string& says) {
  Outcome o = run_program(arguments);
  EXPECT_EQ(o.exit_code, code) << o.err;
  EXPECT_NE(o.err.find(says), std::string::npos) << o.err;
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
}

// Also where it stands beside the part that is a language model.
TEST(HostileInputs, UnknownQuantizationIsRefusedByName) {
  TempDirectory dir;
  const std::string path = dir.path() + "/model";
  const char* quantization = R"(,"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4"}})";
  const std::string tiny = kTinyConfig;
  dir.write("model/config.json", tiny.substr(0, tiny.size() - 1) + quantization);
  expect_refusal({"generate", "--model", path, "--prompt-token-ids", "5"}, 1, "quant_method 'modelopt'");
  dir.write("model/config.json", std::string(R"({"architectures":["Gemma4ForConditionalGeneration"],
      "model_type":"gemma4","text_config":{"vocab_size":96,"hidden_size":64,"intermediate_size":96,
      "num_hidden_layers":2,"num_attention_heads":4,"hidden_size_per_layer_input":0})") +
                                     quantization);
  expect_refusal({"generate", "--model", path, "--prompt-token-ids", "5"}, 1, "quant_method 'modelopt'");
}

TEST(HostileInputs, NamesCannotControlTheTerminal) {
  TempDirectory folder;
  std::string path = folder.write("s\x1b.yaml", kScenario);
  Outcome list = run_program({"kernels", "--list", "--scenarios", path});
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_NE(list.out.find("a\\x1bb"), std::string::npos) << list.out;
  EXPECT_EQ(list.out.find('\x1b'), std::string::npos);
  std::ofstream(path) << "nothing: \x1b[31m\n";
  Outcome bad = run_program({"kernels", "--list", "--scenarios", path});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_EQ(bad.err.find('\x1b'), std::string::npos) << bad.err;
}

TEST(HostileInputs, ASecondYamlDocumentIsRefused) {
  TempDirectory folder;
  std::string path = folder.write("s.yaml", std::string(kScenario) + "---\nrms_norm: []\n");
  expect_refusal({"kernels", "--list", "--scenarios", path}, 1, "second YAML document");
  EXPECT_EQ(run_program({"kernels", "--list", "--scenarios", folder.write("t.yaml", std::string(kScenario) + "...\n")})
                .exit_code,
            0);
}

TEST(HostileInputs, PathsMayBeAnyBytes) {
  TempDirectory folder;
  fs::path path = fs::path(folder.path()) / "bytes\xff.yaml";
  Outcome o = run_program({"capture", "--model", "tiny-llama", "--load-format", "dummy", "--prompt-tokens", "3",
                           "--decode-tokens", "1", "--out", path.string(), "--json"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_TRUE(fs::exists(path));
  EXPECT_FALSE(parse_json(o.out, "output")["operators"].empty());
}

TEST(HostileInputs, OutputGoesThroughLinksAndIntoPipes) {
  TempDirectory folder;
  fs::path link = fs::path(folder.path()) / "link.yaml";
  fs::create_symlink("real.yaml", link);
  Outcome o = run_program({"capture", "--model", "tiny-llama", "--load-format", "dummy", "--prompt-tokens", "3",
                           "--decode-tokens", "1", "--out", link.string(), "--quiet"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_GT(fs::file_size(fs::path(folder.path()) / "real.yaml"), 100u);
}

TEST(HostileInputs, ATokenizerThatIsNotUnderstoodDoesNotHinderIds) {
  TempDirectory folder;
  folder.write("config.json", kTinyConfig);
  folder.write("tokenizer.json", R"({"model": {"type": "Unigram"}})");
  Outcome ids = run_program(dummy(folder.path(), {"--prompt-token-ids", "1,2", "--max-tokens", "2", "--json"}));
  EXPECT_EQ(ids.exit_code, 0) << ids.err;
  EXPECT_EQ(parse_json(ids.out, "output")["token_ids"].size(), 2u);
  EXPECT_NE(ids.err.find("only ids"), std::string::npos) << ids.err;
  expect_refusal(dummy(folder.path(), {"--prompt", "x"}), 1, "tokenizer");
  RunningProgram server({"serve", "--model", folder.path(), "--load-format", "dummy", "--port", "0"});
  EXPECT_TRUE(server.prints("http://127.0.0.1:")) << server.err();
  Outcome ended = server.end(SIGTERM);
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_NE(ended.err.find("only ids"), std::string::npos) << ended.err;
}

TEST(HostileInputs, PipesAsConfigOrTokenizerAreRefused) {
  TempDirectory config, tokenizer;
  ASSERT_EQ(mkfifo((config.path() + "/config.json").c_str(), 0600), 0);
  expect_refusal(dummy(config.path(), {"--prompt", "x"}), 1, "a pipe");
  tokenizer.write("config.json", kTinyConfig);
  ASSERT_EQ(mkfifo((tokenizer.path() + "/tokenizer.json").c_str(), 0600), 0);
  expect_refusal(dummy(tokenizer.path(), {"--prompt", "x"}), 1, "a pipe");
}

TEST(HostileInputs, OtherFormatsAreNamed) {
  TempDirectory folder;
  folder.write("config.json", kTinyConfig);
  folder.write("pytorch_model.bin", "x");
  expect_refusal({"generate", "--model", folder.path(), "--prompt-token-ids", "1"}, 1, "PyTorch's pickle format");
  expect_refusal({"generate", "--model", folder.write("m.gguf", "GGUF"), "--prompt", "x"}, 1, "GGUF");
  TempDirectory beside;
  beside.write("config.json", kTinyConfig);
  beside.write("model.Q4.gguf", "GGUF");
  expect_refusal({"generate", "--model", beside.path(), "--prompt-token-ids", "1"}, 1, "--model '" + beside.path());
  TempDirectory bare;
  bare.write("model.Q4_K_M.gguf", "GGUF");
  expect_refusal({"generate", "--model", bare.path(), "--prompt", "x"}, 1, "GGUF");
}

TEST(HostileInputs, EmptyPromptsAndCachesTooLargeAreExplained) {
  expect_refusal(dummy("tiny-llama", {"--prompt", ""}), 2, "The prompt is empty");
  TempDirectory folder;
  folder.write("config.json", kTinyConfig);
  for (const char* prompt : {"1", "16777216"})
    expect_refusal({"ttft", "--model", folder.path(), "--load-format", "dummy", "--no-history", "--prompt-tokens",
                    prompt, "--decode-tokens", "16777216", "--batch-size", "65536"},
                   1, "memory free");
}

TEST(HostileInputs, InputsWithoutAnEndAreRefused) {
  expect_refusal(dummy("tiny-llama", {"--prompt-file", "/dev/zero"}), 1, "more than 64 MiB");
  TempDirectory folder;
  expect_refusal({"history", "import", "/dev/zero", "--db", folder.path() + "/h.db"}, 1, "it is a device");
}

// The table of a terminal, and what is read by a program.
TEST(HostileInputs, CsvOnATerminalIsEscaped) {
  TempDirectory folder;
  const Arguments list = {
      "kernels", "--list", "--target", "rms_norm", "--csv", "--scenarios", folder.write("s.yaml", kScenario)};
  Outcome shown = run_program_on_terminal(list, 200, true);
  EXPECT_NE(shown.err.find("a\\x1bb"), std::string::npos) << shown.err;
  EXPECT_NE(run_program(list).out.find("a\x1b"
                                       "b"),
            std::string::npos);
}

TEST(HostileInputs, ProgressIsErasedBeforeResults) {
  Outcome o = run_program_on_terminal({"ttft", "--model", "tiny-llama", "--load-format", "dummy", "--prompt-tokens",
                                       "8", "--decode-tokens", "4", "--iters", "1", "--no-floors", "--no-history"},
                                      80, true);
  EXPECT_EQ(o.exit_code, 0) << o.err;
  const size_t first = o.err.find("tiny-llama, LlamaForCausalLM");
  ASSERT_NE(first, std::string::npos) << o.err;
  EXPECT_EQ(o.err.substr(first - 3, 3), "\033[K") << o.err;
}

// As `--temperature "$UNSET"` of a script gives it.
TEST(HostileInputs, NoTextIsNoNumber) {
  for (const Arguments& words :
       {Arguments{"generate", "--prompt-token-ids", "1", "--temperature", ""},
        Arguments{"ttft", "--no-history", "--prompt-ids", ""}, Arguments{"ttft", "--no-history", "--iters", ""}}) {
    Arguments all = words;
    all.insert(all.end(), {"--model", "tiny-llama", "--load-format", "dummy"});
    Outcome o = run_program(all);
    EXPECT_EQ(o.exit_code, 2) << words[0] << o.out;
    EXPECT_NE(o.err.find("give a number"), std::string::npos) << words[0] << o.err;
  }
}

TEST(HostileInputs, DtypesHaveTheNamesOfVllmToo) {
  auto dtype = [](const char* name) {
    Outcome o =
        run_program(dummy("tiny-llama", {"--prompt-token-ids", "1", "--max-tokens", "1", "--dtype", name, "--json"}));
    EXPECT_EQ(o.exit_code, 0) << name << o.err;
    return parse_json(o.out, "output")["dtype"].get<std::string>();
  };
  for (const char* name : {"auto", "bf16", "bfloat16"}) EXPECT_EQ(dtype(name), "bf16") << name;
  for (const char* name : {"f16", "float16", "half"}) EXPECT_EQ(dtype(name), "f16") << name;
  for (const char* name : {"f32", "float32", "float"}) EXPECT_EQ(dtype(name), "f32") << name;
}

}  // namespace
}  // namespace fk
