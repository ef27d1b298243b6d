// The catalog: every entry is a valid model, inheritance and patterns work, mistakes are named.
#include "models/catalog.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "models/checkpoint_names.h"
#include "models/family.h"
#include "ops/l4/gemma3_for_causal_lm.h"
#include "ops/l4/qwen3_for_causal_lm.h"
#include "ops/registry.h"
#include "tests/models/error_text.h"
#include "tests/models/init_of.h"

namespace fk {
namespace {

// What the parameters of its tree add up to; published counts are the reference.
int64_t parameter_count(const ModelConfig& config) {
  std::unique_ptr<Node> root = Registry::instance().at(config.family->op).build(config.init, {.oracle = true});
  int64_t count = 0;
  for (const ParamSpec& param : checkpoint_params(*root, config)) count += param.spec.shape.numel();
  return count;
}

TEST(Catalog, HasTheSizesItsModelsAreKnownFor) {
  // Counts as the checkpoints on the hub report them, for Mixtral and the Qwen models with experts from memory and not
  // looked up; Gemma 3 4B without its vision tower and projector.
  const std::map<std::string, int64_t> published = {
      {"llama-3-8b", 8030261248},         {"llama-3.1-8b", 8030261248},  {"llama-3.1-70b", 70553706496},
      {"llama-3.2-1b", 1235814400},       {"llama-3.2-3b", 3212749824},  {"mistral-7b", 7248023552},
      {"qwen3-0.6b", 596049920},          {"qwen3-4b", 4022468096},      {"qwen3-8b", 8190735360},
      {"gemma3-1b", 999885952},           {"gemma3-4b", 3880263168},     {"qwen2.5-0.5b", 494032768},
      {"qwen2.5-7b", 7615616512},         {"olmo2-1b", 1484916736},      {"olmo2-7b", 7298617344},
      {"granite-3.1-2b", 2533531648},     {"phi-4", 14659507200},        {"glm4-9b", 9400279040},
      {"command-r-35b", 34980831232},     {"mixtral-8x7b", 46702792704}, {"qwen3-30b-a3b", 30532122624},
      {"qwen1.5-moe-a2.7b", 14315784192}, {"bge-m3", 567754752},         {"xlm-roberta-base", 278043648},
      {"siglip2-base", 92884224},         {"siglip2-so400m", 428225600}};
  for (const auto& [name, count] : published) {
    const CatalogEntry* entry = find_catalog(name);
    ASSERT_NE(entry, nullptr) << name;
    EXPECT_EQ(parameter_count(entry->config), count) << name;
  }
}

TEST(Catalog, HoldsOnlyValidModelsUnderDistinctNames) {
  std::set<std::string> names;
  std::map<std::string, int> tiny;
  for (const CatalogEntry& entry : catalog()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_EQ(find_catalog(entry.name), &entry);
    EXPECT_EQ(find_family(entry.config.architecture())->name, entry.family);
    EXPECT_EQ(entry.hf_id.empty(), entry.name.starts_with("tiny-")) << entry.name;
    if (entry.hf_id.empty()) {
      ++tiny[entry.family];
      EXPECT_LT(parameter_count(entry.config), 500000) << entry.name;
    }
  }
  for (const Family* family : families()) EXPECT_GE(tiny[std::string(family->name)], 3) << family->name;
  EXPECT_EQ(find_catalog("no-such-model"), nullptr);
}

TEST(Catalog, ReadsInheritanceAndPatterns) {
  auto entries = parse_catalog(R"(
a: {hf: x/a, arch: Gemma3ForCausalLM, D: 8, F: 16, L: 7, H: 2, K: 1, Dh: 4, V: 10, max_pos: 32, sliding_window: 4, pattern: "2 local : 1 global"}
b: {like: a, L: 4, rope_scaling: {type: linear, factor: 8}}
c: {like: b, arch: Qwen3ForCausalLM, L: 2, use_sliding_window: true, pattern: "1 local : 1 global"}
)");
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].hf_id, "x/a");
  EXPECT_EQ(init_of<Gemma3ForCausalLM>(entries[0].config).layer_is_sliding,
            (std::vector<uint8_t>{1, 1, 0, 1, 1, 0, 1}));
  EXPECT_EQ(entries[1].hf_id, "");
  EXPECT_EQ(init_of<Gemma3ForCausalLM>(entries[1].config).layer_is_sliding, (std::vector<uint8_t>{1, 1, 0, 1}));
  EXPECT_EQ(init_of<Gemma3ForCausalLM>(entries[1].config).rope_scaling.factor, 8);
  EXPECT_EQ(entries[2].family, "qwen3");
  EXPECT_EQ(init_of<Qwen3ForCausalLM>(entries[2].config).layer_is_sliding, (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(init_of<Qwen3ForCausalLM>(entries[2].config).rope_scaling.type, "linear");
}

TEST(Catalog, NamesWhatIsWrong) {
  auto refusal = [](const std::string& text) { return error_of([&] { parse_catalog(text); }); };
  const std::string good = "arch: LlamaForCausalLM, D: 8, F: 16, L: 1, H: 2, K: 1, Dh: 4, V: 10, max_pos: 32";
  EXPECT_EQ(refusal("a: {" + good + "}"), "(no error)");
  for (const std::string& wrong :
       {good + ", DD: 3", good + ", query_pre_attn_scalar: 3", good + ", sliding_window: 3", good + ", K: 3",
        good + ", Dh: 3", good + ", like: b", good + ", pattern: \"5 local\"", good + ", D: many",
        good + ", rope_scaling: {type: yarn}", good + ", rope_scaling: {kind: linear}", std::string("arch: GPT2, D: 8"),
        std::string("D: 8")}) {
    EXPECT_NE(refusal("a: {" + wrong + "}").find("'a'"), std::string::npos)
        << wrong << ": " << refusal("a: {" + wrong + "}");
  }
}

}  // namespace
}  // namespace fk
