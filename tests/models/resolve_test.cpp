// --model: directories, names of the catalog, ids in the Hugging Face cache, and what is said about anything else.
#include "models/resolve.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <optional>

#include "models/catalog.h"
#include "tests/models/error_text.h"
#include "tests/models/published_configs.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

// Points every variable that names a cache into a fresh directory, and puts the old values back.
class ResolveTest : public testing::Test {
 protected:
  ResolveTest() {
    for (const char* name : {"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"}) {
      const char* value = getenv(name);
      before_[name] = value == nullptr ? std::nullopt : std::optional<std::string>(value);
      unsetenv(name);
    }
    setenv("HOME", dir_.path().c_str(), 1);
  }
  ~ResolveTest() override {
    for (const auto& [name, value] : before_) value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  }

  void cache_model(const std::string& hub) {
    dir_.write(hub + "/models--org--model-1B/refs/main", "abc123\n");
    dir_.write(hub + "/models--org--model-1B/snapshots/abc123/config.json", kQwen3Config);
    dir_.write(hub + "/models--org--model-1B/snapshots/abc123/tokenizer.json", "{}");
  }

  TempDirectory dir_;
  std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(ResolveTest, TakesADirectory) {
  dir_.write("m/config.json", kLlama32Config);
  ModelSource source = resolve_model(dir_.path() + "/m");
  EXPECT_EQ(source.name, dir_.path() + "/m");
  EXPECT_EQ(source.directory, dir_.path() + "/m");
  EXPECT_EQ(source.config, find_catalog("llama-3.2-1b")->config);
  EXPECT_EQ(source.tokenizer, "");
  dir_.write("m/tokenizer.json", "{}");
  EXPECT_EQ(resolve_model(dir_.path() + "/m").tokenizer, dir_.path() + "/m/tokenizer.json");
}

TEST_F(ResolveTest, TakesANameOfTheCatalog) {
  ModelSource source = resolve_model("tiny-llama");
  EXPECT_EQ(source.name, "tiny-llama");
  EXPECT_EQ(source.config, find_catalog("tiny-llama")->config);
  EXPECT_EQ(source.directory, "");
  EXPECT_EQ(source.tokenizer, "");
}

TEST_F(ResolveTest, FindsAnIdInEveryPlaceOfTheCache) {
  struct Case {
    const char* variable;
    std::string value, hub;
  };
  for (const Case& c :
       {Case{"HOME", "", ".cache/huggingface/hub"}, Case{"XDG_CACHE_HOME", "/xdg", "xdg/huggingface/hub"},
        Case{"HF_HOME", "/hf", "hf/hub"}, Case{"HF_HUB_CACHE", "/hub", "hub"}}) {
    setenv(c.variable, (dir_.path() + c.value).c_str(), 1);
    EXPECT_THROW(resolve_model("org/model-1B"), Error) << "the variables before it must not matter: " << c.variable;
    cache_model(c.hub);
    ModelSource source = resolve_model("org/model-1B");
    EXPECT_EQ(source.directory, dir_.path() + "/" + c.hub + "/models--org--model-1B/snapshots/abc123");
    EXPECT_EQ(source.tokenizer, source.directory + "/tokenizer.json");
    EXPECT_EQ(source.config, find_catalog("qwen3-0.6b")->config);
  }
}

TEST_F(ResolveTest, SuggestsWhatIsNearAndSaysWhereItLooked) {
  expect_sentence(error_of([] { resolve_model("lama-3.2-1b"); }),
                  {"'lama-3.2-1b'", "llama-3.2-1b", "not a directory", "catalog", ".cache/huggingface/hub"});
  expect_sentence(error_of([] { resolve_model("meta-llama/Llama-3.2-1B-Instruct"); }), {"near are llama-3.2-1b"});
  expect_sentence(error_of([] { resolve_model("tiny_qwen3"); }), {"near are tiny-qwen3"});
}

TEST_F(ResolveTest, RefusesBrokenPlaces) {
  expect_sentence(error_of([] { resolve_model(""); }), {"empty"});
  EXPECT_THROW(resolve_model(std::string(100000, 'x')), Error);
  expect_sentence(error_of([&] { resolve_model(dir_.path()); }), {"config.json"});
  for (const char* id : {"../x", "a/../b", "a/b/c", "/etc", "a/.hidden", "..", "a b"})
    EXPECT_THROW(resolve_model(id), Error) << id;
  cache_model(".cache/huggingface/hub");
  std::string model = ".cache/huggingface/hub/models--org--model-1B";
  dir_.write(model + "/refs/main", "../../../elsewhere");
  expect_sentence(error_of([] { resolve_model("org/model-1B"); }), {"refs/main", "revision"});
  dir_.write(model + "/refs/main", "def456");
  expect_sentence(error_of([] { resolve_model("org/model-1B"); }), {"def456", "config.json"});
  dir_.write("m/config.json", "{\"architectures\":[\"Nope\"]}");
  expect_sentence(error_of([&] { resolve_model(dir_.path() + "/m"); }), {"'Nope'", "LlamaForCausalLM"});
}

}  // namespace
}  // namespace fk
