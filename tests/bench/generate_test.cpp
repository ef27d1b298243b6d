// All scenarios of the catalog: each is built and its memory planned, and the small ones run.
#include "bench/scenarios/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "bench/scenarios/dry_run.h"
#include "bench/scenarios/memory_plan.h"
#include "bench/scenarios/recorder.h"
#include "bench/scenarios/scenario_data.h"
#include "engine/model.h"
#include "models/catalog.h"
#include "tests/models/error_text.h"

namespace fk {
namespace {

const GeneratedScenarios& all_published() {
  static const GeneratedScenarios generated = generate_scenarios({});
  return generated;
}

void every_operator_has_some_and_names_are_unique() {
  std::map<std::string, std::set<std::string>> names;
  for (const Scenario& s : all_published().scenarios) {
    EXPECT_TRUE(names[s.op].insert(s.name).second) << s.op << " " << s.name;
    if (!s.name.starts_with("contract/")) {
      EXPECT_TRUE(s.name.starts_with(s.models.at(0) + "/tp" + std::to_string(s.tp)));
    }
    EXPECT_GE(s.count, 1);
  }
  for (const OperatorInfo* op : Registry::instance().operators())
    EXPECT_FALSE(names[std::string(op->name)].empty()) << op->name;
  for (const LeftOut& l : all_published().left_out)
    EXPECT_EQ(l.what.find(": "), std::string::npos) << l.what << ": every call must have a workload; " << l.reason;
}

void equal_calls_are_one_scenario_that_names_their_models() {
  for (const Scenario& s : all_published().scenarios) {
    if (s.op != "rms_norm" || s.name != "llama-3-8b/tp1/decode-32/input_layernorm") continue;
    ASSERT_GE(s.models.size(), 3u);
    EXPECT_EQ(std::vector(s.models.begin(), s.models.begin() + 3),
              (std::vector<std::string>{"llama-3-8b", "llama-3.1-8b", "mistral-7b"}));
    EXPECT_NE(std::find(s.models.begin(), s.models.end(), "mixtral-8x7b"), s.models.end());
    EXPECT_EQ(s.also_tp, (std::vector<int64_t>{2, 4, 8}));
    return;
  }
  FAIL() << "no such scenario";
}

void shapes_are_those_of_one_rank() {
  auto one = [](const char* op, const char* name) -> const Scenario& {
    for (const Scenario& s : all_published().scenarios)
      if (s.op == op && s.name == name) return s;
    throw Error("There is no scenario {} of {}.", name, op);
  };
  auto shape = [](const Scenario& s, size_t argument) { return scenario_inputs(s)[argument]->spec.shape; };
  // llama-3.1-70b: 64 heads, 8 of keys and values, 28672 wide. llama-3-8b comes first in the catalog.
  const Scenario& attention = one("attention", "llama-3.1-70b/tp8/decode-32");
  EXPECT_EQ(shape(attention, 0), (Shape{32, 8 * 128}));
  EXPECT_EQ(shape(attention, 1), (Shape{32, 128}));
  EXPECT_EQ(attention.count, 80);
  EXPECT_EQ(attention.workload.sequences.size(), 32u);
  EXPECT_NE(attention.workload.sequences.front().context_len, attention.workload.sequences.back().context_len);
  // Queries are part of one product with keys and values, so there are gaps between their rows.
  EXPECT_EQ(attention.override_of("query")->strides, (std::vector<int64_t>{10 * 128, 1}));
  EXPECT_EQ(shape(one("silu_and_mul", "llama-3-8b/tp4/decode-512"), 0), (Shape{512, 2 * 14336 / 4}));
  EXPECT_EQ(shape(one("linear", "llama-3.1-70b/tp2/decode-8/down_proj"), 0), (Shape{8, 28672 / 2}));
  // gemma3-1b has four query heads and one key-value head, which every rank has.
  EXPECT_EQ(shape(one("rotary_emb", "gemma3-1b/tp4/decode-8/rotary_emb"), 1), (Shape{8, 256}));
  EXPECT_EQ(shape(one("rotary_emb", "gemma3-1b/tp4/decode-8/rotary_emb"), 2), (Shape{8, 256}));
  EXPECT_EQ(shape(one("argmax", "llama-3-8b/tp1/decode-32"), 0), (Shape{32, 128256}));
}

// One test, because all scenarios are generated for it.
TEST(GenerateScenarios, SlowNamesModelsAndShapesAreRight) {
  every_operator_has_some_and_names_are_unique();
  equal_calls_are_one_scenario_that_names_their_models();
  shapes_are_those_of_one_rank();
}

// Every scenario is built, its inputs generated and its memory planned; none is refused without numbers.
TEST(GenerateScenarios, SlowAllAreBuiltAndPlanned) {
  MemoryInfo small{.total_bytes = 1 << 30, .available_bytes = 1 << 30};
  size_t refused = 0;
  for (const Scenario& s : all_published().scenarios) {
    MemoryPlan plan = plan_memory(s);
    EXPECT_GT(plan.total_bytes(), 0u) << s.op << " " << s.name;
    Cost cost = s.info().cost(s.init, s.workload);
    EXPECT_GT(cost.bytes(), 0) << s.op << " " << s.name;
    std::string why = refuse_memory(s, plan, small);
    EXPECT_EQ(why.empty(), plan.total_bytes() <= small.available_bytes);
    if (!why.empty() && ++refused < 5) expect_sentence(why, {"GiB", "1.00 GiB left", s.name.c_str()});
  }
  EXPECT_GT(refused, 0u);
}

TEST(GenerateScenarios, SlowSmallOnesRun) {
  ScenarioSelection tiny{.models = {"tiny-"}, .tp = {1, 2}};
  std::vector<Scenario> scenarios = generate_scenarios(tiny).scenarios;
  for (const Scenario& s : all_published().scenarios) scenarios.push_back(s);
  ThreadPool pool(1);
  std::vector<Tensor> outputs;
  std::map<std::string, int> ran;
  int total = 0;
  constexpr int kMostOfAnOperator = 8;
  for (const Scenario& s : scenarios) {
    Cost cost = s.info().cost(s.init, s.workload);
    if (cost.bytes() > 2e6 || cost.matrix_flops + cost.vector_flops > 2e7) continue;
    if (ran[s.op] >= kMostOfAnOperator) continue;  // a number, not a time: the same ones on every machine
    if (plan_memory(s).total_bytes() > (64u << 20)) continue;
    ++ran[s.op];
    ++total;
    ASSERT_NO_THROW(run_scenario_once(s, 7, pool, outputs)) << s.op << " " << s.name;
    for (const Tensor& t : outputs)
      // The lse of a query without keys is -infinity; nothing else is infinite or NaN.
      if (dtype_is_float(t.view().dtype()) && t.view().numel() > 0) {
        ASSERT_LT(load_element(t.view().data(), t.view().dtype()), HUGE_VAL) << s.op << " " << s.name;
      }
  }
  RecordProperty("scenarios_run", total);
  EXPECT_GT(total, 100);
  for (const OperatorInfo* op : Registry::instance().operators()) EXPECT_GT(ran[std::string(op->name)], 0) << op->name;
}

TEST(GenerateScenarios, ImpossibleDivisionsAreLeftOutWithAReason) {
  GeneratedScenarios eight = generate_scenarios({.models = {"gemma3-1b"}, .tp = {8}});
  EXPECT_TRUE(eight.scenarios.empty());
  ASSERT_FALSE(eight.left_out.empty());
  EXPECT_EQ(eight.left_out[0].what, "gemma3-1b/tp8");
  expect_sentence(eight.left_out[0].reason, {"4 attention heads cannot be divided over 8 ranks"});
}

// With a target the calls of other operators are skipped; this must not change the target's scenarios.
void expect_the_scenarios_among_all(const std::vector<std::string>& models) {
  ScenarioSelection tiny{.models = models, .tp = {1, 2}};
  std::vector<Scenario> all = generate_scenarios(tiny).scenarios;
  for (const char* target : {"linear", "llama_decoder_layer", "flash_attn_decode"}) {
    tiny.target = target;
    std::vector<Scenario> own = all;
    std::erase_if(own, [&](const Scenario& s) { return s.op != target; });
    std::vector<Scenario> alone = generate_scenarios(tiny).scenarios;
    ASSERT_FALSE(alone.empty()) << target;
    ASSERT_EQ(alone.size(), own.size()) << target;
    for (size_t i = 0; i < own.size(); ++i) {
      EXPECT_EQ(alone[i].name, own[i].name);
      EXPECT_EQ(alone[i].count, own[i].count) << own[i].name;
      EXPECT_EQ(alone[i].models, own[i].models) << own[i].name;
      EXPECT_EQ(call_text(alone[i]), call_text(own[i])) << own[i].name;
    }
  }
}

TEST(GenerateScenarios, ATargetHasTheScenariosItHasAmongAll) { expect_the_scenarios_among_all({"tiny-llama"}); }
TEST(GenerateScenarios, SlowATargetHasTheScenariosOfAllModels) {
  expect_the_scenarios_among_all({"tiny-llama", "tiny-gemma3"});
}

TEST(GenerateScenarios, FlagsSelect) {
  auto count = [](const ScenarioSelection& s) { return generate_scenarios(s).scenarios.size(); };
  ScenarioSelection one{.models = {"qwen3-0.6b"}, .tp = {1}};
  size_t all = count(one);
  one.level = 3;
  GeneratedScenarios layers = generate_scenarios(one);
  EXPECT_LT(layers.scenarios.size(), all);
  for (const Scenario& s : layers.scenarios) EXPECT_EQ(s.op, "qwen3_decoder_layer");
  one.filter = "decode-8";
  for (const Scenario& s : generate_scenarios(one).scenarios) EXPECT_NE(s.name.find("decode-8"), std::string::npos);
  EXPECT_GT(count({.models = {"qwen3-0.6b"}, .tp = {1}, .target = "linear"}), 20u);
  EXPECT_EQ(count({.models = {"qwen3-0.6b"}, .tp = {1}, .target = "gelu_and_mul"}), 0u);
  expect_sentence(error_of([&] { count({.models = {"lama-3.1"}}); }), {"'lama-3.1'", "llama-3.1"});
  expect_sentence(error_of([&] { count({.target = "rmsnorm"}); }), {"'rmsnorm'", "rms_norm"});
}

TEST(ScenarioFilter, MatchesWholeWords) {
  const std::string name = "llama-3.2-1b/tp1/decode-16/input_layernorm";
  for (const char* filter : {"", "decode", "llama", "decode-16", "tp1/decode-16", "tp1/decode-16/", "/decode-16/",
                             "input_layernorm", "layernorm", "llama-3", "-16", "llama-3.2-1b/tp1/decode"})
    EXPECT_TRUE(name_matches(name, filter)) << filter;
  for (const char* filter : {"decode-1", "decode-160", "ecode", "lama", "tp", "p1/decode-16", "norm", "6"})
    EXPECT_FALSE(name_matches(name, filter)) << filter;
  EXPECT_TRUE(name_matches("a-12/a-1", "a-1")) << "the second place counts too";
}

// A layer is created from its own arguments, whatever its position in a model; layers of one kind have the same
// arguments.
TEST(GenerateScenarios, ALayerAloneIsTheLayerInItsModel) {
  const CatalogEntry* entry = find_catalog("gemma3-1b");
  std::unique_ptr<Node> model = build_model(entry->config, dry_build_options());
  auto parts = [](const Node& root) {
    std::vector<std::string> list;
    walk(root, [&](const Node& node, int depth) {
      if (depth == 0) return;
      list.push_back(std::string(node.info().name) + " " + fields_text(node.init()));
    });
    return list;
  };
  int layers = 0;
  std::set<std::string> kinds;
  for (const Node* layer : model->children()) {
    if (layer->info().level != 3) continue;
    ++layers;
    std::unique_ptr<Node> alone = layer->info().build(layer->init(), dry_build_options());
    EXPECT_EQ(parts(*alone), parts(*layer)) << layer->path();
    EXPECT_EQ(collect_states(*alone).size(), 2u);
    kinds.insert(fields_text(layer->init()));
  }
  EXPECT_EQ(layers, 26);
  EXPECT_EQ(kinds.size(), 2u) << "sliding and global";
}

TEST(GenerateScenarios, StepsAreRaggedAndFitTheContext) {
  for (int64_t max_context : {512, 8192, 131072}) {
    std::vector<Step> steps = steps_of_all_sizes(max_context);
    EXPECT_EQ(steps.size(), 11u);
    for (const Step& step : steps) {
      std::set<int64_t> lengths;
      int64_t tokens = 0;
      for (const Sequence& s : step.sequences) {
        EXPECT_GE(s.query_len, 1);
        EXPECT_LE(s.query_len + s.context_len, max_context) << step.name;
        tokens += s.query_len;
        lengths.insert(s.query_len + s.context_len);
      }
      EXPECT_TRUE(step.name.ends_with("-" + std::to_string(tokens))) << step.name << " " << tokens;
      if (step.sequences.size() > 1) {
        EXPECT_GT(lengths.size(), 1u) << step.name;
      }
    }
  }
}

}  // namespace
}  // namespace fk
