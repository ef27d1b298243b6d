// Start and stop tokens: generation_config.json before config.json, one id or a list.
#include "models/generation_defaults.h"

#include <gtest/gtest.h>

#include "core/json.h"
#include "tests/models/error_text.h"
#include "tests/models/published_configs.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

TEST(GenerationDefaults, ComeFromEitherFile) {
  TempDirectory dir;
  EXPECT_EQ(read_generation_defaults(dir.path()), GenerationDefaults{});
  dir.write("config.json", kMistralConfig);
  EXPECT_EQ(read_generation_defaults(dir.path()), (GenerationDefaults{1, {2}}));
  dir.write("config.json", kLlama32Config);
  EXPECT_EQ(read_generation_defaults(dir.path()), (GenerationDefaults{128000, {128001, 128008, 128009}}));
  dir.write("generation_config.json", R"({"bos_token_id": null, "eos_token_id": [5], "temperature": 0.6})");
  EXPECT_EQ(read_generation_defaults(dir.path()), (GenerationDefaults{128000, {5}}));
  dir.write("generation_config.json", R"({"bos_token_id": 7})");
  EXPECT_EQ(read_generation_defaults(dir.path()), (GenerationDefaults{7, {128001, 128008, 128009}}));
}

TEST(GenerationDefaults, SamplingCountsWhereDoSampleIsTrue) {
  TempDirectory dir;
  dir.write("config.json", R"({"eos_token_id": 2, "do_sample": true, "temperature": 0.1})");
  EXPECT_EQ(read_generation_defaults(dir.path()).sampling, SamplingDefaults{});
  dir.write("generation_config.json", R"({"temperature": 0.6, "top_p": 0.9})");
  EXPECT_EQ(read_generation_defaults(dir.path()).sampling, SamplingDefaults{});
  dir.write("generation_config.json", R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9, "top_k": 20})");
  EXPECT_EQ(read_generation_defaults(dir.path()).sampling,
            (SamplingDefaults{.temperature = 0.6, .top_k = 20, .top_p = 0.9}));
  dir.write("generation_config.json", R"({"do_sample": true, "repetition_penalty": 1.1})");
  EXPECT_EQ(read_generation_defaults(dir.path()).sampling,
            (SamplingDefaults{.temperature = 1, .repetition_penalty = 1.1}));
}

TEST(GenerationDefaults, RefuseWhatIsNoTokenId) {
  for (const char* value : {"-1", "1.5", "\"</s>\"", "{}", "[1, -1]", "[1, \"2\"]", "[[1]]", "4294967296", "true"}) {
    Json json = parse_json(std::string("{\"eos_token_id\":") + value + "}", "test");
    expect_sentence(error_of([&] { generation_defaults_from_json(json, "config.json"); }),
                    {"config.json", "eos_token_id"});
  }
  Json bos = parse_json("{\"bos_token_id\":[1]}", "test");
  expect_sentence(error_of([&] { generation_defaults_from_json(bos, "config.json"); }),
                  {"config.json", "bos_token_id"});
  expect_sentence(error_of([] { generation_defaults_from_json(Json::array(), "config.json"); }),
                  {"config.json", "object"});
}

}  // namespace
}  // namespace fk
